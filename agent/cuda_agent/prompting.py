"""Renders prompts/*.md (Jinja, an unknown name is an error); prompts/README.md lists the names each template may use.

Of the operator only its source and what the judge's analysis returned go in.
"""

from collections.abc import Mapping, Set
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import jinja2

from cuda_agent.operators import MAIN, Operator
from cuda_agent_judge.report import TARGET_RATIO, Report, side_name

MAX_SOURCE_CHARS = 8_000
"""Of the operator's source; the whole of it stands in the workspace's model.py."""
_MAX_NODES = 40
_SPEAKING = ("name", "compiler")
"""Facts whose value says what they are."""


@dataclass(frozen=True)
class TaskContext:
    """What system.md and task.md may speak of; the fields are their variables."""

    name: str
    """The operator's."""
    source: str
    """Its source, cut when very long."""
    analysis: str
    """The traced graph in a few lines; "" where there is none."""
    notes: tuple[str, ...]
    """What else should be known: modules that travel with it, what the judge noted."""
    workspace: str
    target: str
    """`cpu` or `cuda`."""
    device: str
    toolchain: str
    max_turns: int
    precision: str
    libraries: str
    output_lifetime: str
    operations: frozenset[str]
    """What the traced graph consists of, without "aten." and overloads: what skills are chosen by."""
    tolerance: str
    """The limits that the judge holds results to, in its words; "" where it named none."""


class Prompts:
    """The templates of one folder."""

    def __init__(self, root: Path) -> None:
        self._root = root
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
        """Return the first user message, with what is known of the operator's families."""
        return self._render("task.md", {**_values(context), "skills": self.skills(context.operations)})

    def skills(self, operations: Set[str]) -> list[str]:
        """Return the texts of the families that operations belong to, each of skills/FAMILY/SKILL.md.

        A text begins with lines `operations: NAMES`; one name of each line must be among the operations. `*` stands
        for a family that is told where no other fits.
        """
        special: list[str] = []
        general: list[str] = []
        for path in sorted(self._root.glob("skills/*/SKILL.md")):
            head, _, text = path.read_text(encoding="utf-8").partition("\n\n")
            lines = [set(line.partition(":")[2].split()) for line in head.splitlines()]
            if lines == [{"*"}]:
                general.append(text.strip())
            elif all(names & operations for names in lines):
                special.append(text.strip())
        return special or (general if operations else [])

    def nudge(self, name: str, **values: Any) -> str:
        """Return a message of the runtime to the model."""
        return self._render(f"nudges/{name}.md", values)

    def _render(self, name: str, values: Mapping[str, Any]) -> str:
        return self._jinja.get_template(name).render(values).strip()


def task_context(
    operator: Operator, report: Report, *, rules: Mapping[str, str], workspace: str, max_turns: int
) -> TaskContext:
    """Put together what the prompts may speak of, from the operator and the report of `analyze`."""
    analysis = report.analysis or {}
    modules = sorted(name for name in operator.files if name != MAIN)
    notes = (f"It imports {', '.join(modules)}, which stand beside it.",) if modules else ()
    return TaskContext(
        name=operator.name,
        source=shorten(operator.source).rstrip(),
        analysis="\n".join([summarise(analysis), *report.performance_lines]).strip(),
        notes=(*notes, *report.notes),
        workspace=workspace,
        target=report.target,
        device=_listed(analysis.get("device", {})) or report.environment.get("device", report.target),
        toolchain=_listed({key: value for key, value in report.environment.items() if key != "device"}) or "as found",
        max_turns=max_turns,
        precision=rules["precision"],
        libraries=rules["libraries"],
        output_lifetime=rules["output_lifetime"],
        operations=frozenset(_operation(node) for node in analysis.get("nodes", [])),
        tolerance=report.rules.get("tolerance", ""),
    )


def speedup_line(report: Report) -> str:
    """Return each speedup with its interval in one line, or ""."""
    parts = [
        f"{one.median:.3g}x over {side_name(name)} (95 % interval {one.low:.3g} to {one.high:.3g})"
        for name, one in sorted(report.speedup.items())
    ]
    return "Speedup: " + ", ".join(parts) if parts else ""


def ratio_line(report: Report) -> str:
    """Return the time relative to the baseline with its interval, the number the target is set on, or ""."""
    one = report.speedup.get(report.headline)
    if one is None or not (one.low > 0 and one.median > 0):
        return ""
    return (
        f"Time relative to {side_name(report.headline)}: {1 / one.median:.3f},"
        f" 95 % interval {1 / one.high:.3f} to {1 / one.low:.3f};"
        f" its upper end must be below {TARGET_RATIO}."
    )


def shorten(source: str, limit: int = MAX_SOURCE_CHARS) -> str:
    """Cut the middle out of a long source, at line ends, and say so."""
    if len(source) <= limit:
        return source
    head = source[: limit * 2 // 3].rpartition("\n")[0]
    tail = source[-(limit // 3) :].partition("\n")[2]
    left_out = source.count("\n") - head.count("\n") - 1 - tail.count("\n")
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


def _operation(node: Mapping[str, Any]) -> str:
    return str(node.get("op", "")).removeprefix("aten.").partition(".")[0].removesuffix("_")


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


def _listed(values: Mapping[str, Any]) -> str:
    ordered = sorted(values.items(), key=lambda item: item[0] not in _SPEAKING)
    return ", ".join(f"{value}" if key in _SPEAKING else f"{key} {value}" for key, value in ordered)


def _values(context: TaskContext) -> dict[str, Any]:
    return {field.name: getattr(context, field.name) for field in fields(context)}
