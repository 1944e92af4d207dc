"""Renders prompts/*.md (Jinja, an unknown name is an error). Into them goes the operator's source and what the judge's analysis said.

system.md and task.md get one `TaskContext`, whose fields are their variables. A nudge gets what its caller passes:
`not_there_yet`, `final_failed` (report), `repeat` (tool, count), `polish` (reached, turns), `no_submission`, `cut_off`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jinja2

from cuda_agent.operators import Operator
from cuda_agent_judge.report import Report

MAX_SOURCE_CHARS = 8_000
"""Of the operator's source; the whole of it stands in the workspace's model.py."""
_MAX_NODES = 40


@dataclass(frozen=True)
class TaskContext:
    """What system.md and task.md may speak of."""

    operator: str
    """The operator's name."""
    source: str
    """Its source, cut when very long."""
    fence: str
    """A code fence that the source does not contain."""
    modules: tuple[str, ...]
    """Other files that travel with it."""
    target: str
    """`cpu` or `cuda`."""
    device: Mapping[str, Any]
    """As the analysis says: name, cores, simd or name, sm, ..."""
    environment: Mapping[str, str]
    """As the judge says: torch, compiler, ..."""
    rules: Mapping[str, str]
    """precision, libraries, output_lifetime."""
    max_turns: int
    time_limit_s: float | None
    analysis: str
    """The traced graph in a few lines; "" where there is none."""


class Prompts:
    """The templates of one folder."""

    def __init__(self, root: Path) -> None:
        self._jinja = jinja2.Environment(
            loader=jinja2.FileSystemLoader(root),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
        )

    def system(self, context: TaskContext) -> str:
        """Return the system message."""
        return self._render("system.md", _values(context))

    def task(self, context: TaskContext) -> str:
        """Return the first user message."""
        return self._render("task.md", _values(context))

    def nudge(self, name: str, **values: Any) -> str:
        """Return a message of the runtime to the model."""
        return self._render(f"nudges/{name}.md", values)

    def _render(self, name: str, values: Mapping[str, Any]) -> str:
        return self._jinja.get_template(name).render(values).strip()


def task_context(
    operator: Operator,
    report: Report,
    *,
    rules: Mapping[str, str],
    max_turns: int,
    time_limit_s: float | None,
) -> TaskContext:
    """Put together what the prompts may speak of, from the operator and the report of `analyze`."""
    source = shorten(operator.source)
    analysis = report.analysis or {}
    return TaskContext(
        operator=operator.name,
        source=source,
        fence=_fence(source),
        modules=tuple(sorted(name for name in operator.files if name != "model.py")),
        target=report.target,
        device=analysis.get("device", {}),
        environment=report.environment,
        rules=rules,
        max_turns=max_turns,
        time_limit_s=time_limit_s,
        analysis=summarise(analysis),
    )


def shorten(source: str, limit: int = MAX_SOURCE_CHARS) -> str:
    """Cut the middle out of a long source, at line ends, and say so."""
    if len(source) <= limit:
        return source
    head = source[: limit * 2 // 3].rpartition("\n")[0]
    tail = source[-(limit // 3) :].partition("\n")[2]
    left_out = source.count("\n") - head.count("\n") - tail.count("\n")
    return f"{head}\n# ... {left_out} lines left out: read them in model.py ...\n{tail}"


def summarise(analysis: Mapping[str, Any]) -> str:
    """Return inputs, operations, outputs and cost in a few lines."""
    if not analysis:
        return ""
    lines = [f"input {_tensor(one)}" for one in analysis.get("inputs", [])]
    lines += [f"{one.get('kind', 'parameter')} {_tensor(one)}" for one in analysis.get("parameters", [])[:_MAX_NODES]]
    nodes = [node for node in analysis.get("nodes", []) if not node.get("view")]
    lines += [_node(node) for node in nodes[:_MAX_NODES]]
    if len(nodes) > _MAX_NODES:
        lines.append(f"... {len(nodes) - _MAX_NODES} more operations: python3 -m utils.analysis")
    totals = analysis.get("totals", {})
    if totals:
        lines.append(
            f"in all {totals.get('flops', 0):,} FLOPs; {totals.get('bytes_required', 0):,} bytes must move,"
            f" {totals.get('bytes_moved', 0):,} move operation by operation"
        )
    return "\n".join(lines)


def _node(node: Mapping[str, Any]) -> str:
    outputs = ", ".join(_tensor(one) for one in node.get("outputs", []))
    return f"{node.get('op')} -> {outputs} ({node.get('flops', 0):,} FLOPs, {node.get('bytes', 0):,} bytes)"


def _tensor(one: Mapping[str, Any]) -> str:
    name = one.get("name") or one.get("id")
    if one.get("kind") == "value":
        return f"{name} = {one.get('value')!r}"
    text = f"{name}: {one.get('dtype')} {one.get('shape')}"
    strides = one.get("strides")
    return f"{text} strides {strides}" if strides and strides != _contiguous(one.get("shape", [])) else text


def _contiguous(shape: list[int]) -> list[int]:
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return strides[::-1]


def _fence(source: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", source)), default=0)
    return "`" * max(3, longest + 1)


def _values(context: TaskContext) -> dict[str, Any]:
    return {field.name: getattr(context, field.name) for field in fields(context)}
