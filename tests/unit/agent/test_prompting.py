import dataclasses
import json
import re
from pathlib import Path
from typing import Any, get_args

import jinja2
import pytest
from tests.unit.agent.fakes import FakeSandbox

from cuda_agent.config import Settings
from cuda_agent.operators import load
from cuda_agent.prompting import Prompts, TaskContext, ratio_line, shorten, speedup_line, summarise, task_context
from cuda_agent.resources import prompts_dir
from cuda_agent_judge.report import Interval, Report
from cuda_agent_tools.bash import Bash
from cuda_agent_tools.glob import Glob
from cuda_agent_tools.multi_edit import MultiEdit
from cuda_agent_tools.todo_write import TodoWrite
from cuda_agent_tools.tool import Tool

ANALYSIS: dict[str, Any] = {
    "device": {"name": "Some CPU", "cores": 2, "simd": "avx2"},
    "inputs": [
        {"id": "i0", "kind": "tensor", "shape": [64, 8], "strides": [8, 1], "dtype": "float32", "bytes": 2048},
        {"id": "i1", "kind": "value", "value": 3},
        {"id": "i2", "kind": "tensor", "shape": [64, 8], "strides": [1, 64], "dtype": "float32", "bytes": 2048},
    ],
    "parameters": [
        {"id": "p0", "name": "l.weight", "kind": "parameter", "shape": [8], "strides": [1], "dtype": "half"},
    ],
    "nodes": [
        {"id": "n0", "op": "aten.t.default", "view": True, "outputs": [], "flops": 0, "bytes": 0},
        {"id": "n1", "op": "aten.mul.Tensor", "outputs": [{"id": "n1", "shape": [64, 8], "dtype": "float32"}],
         "flops": 512, "bytes": 6144},
    ],
    "totals": {"flops": 512, "bytes_required": 4096, "bytes_moved": 6144},
}  # fmt: skip
RULES = {"precision": "ieee", "libraries": "vendor", "output_lifetime": "held", "target": "cpu"}


@pytest.fixture
def context(tmp_path: Path) -> TaskContext:
    (tmp_path / "model.py").write_text("import helper\nclass Model: ...\ndef get_inputs(): ...  # {{ not jinja }}\n")
    (tmp_path / "helper.py").write_text("")
    report = Report(
        command="analyze",
        status="measured",
        analysis=ANALYSIS,
        notes=["a note"],
        performance={"lines": ["floor 88.2 us, by its bytes"], "at_limit": ""},
        environment={"torch": "2.13.0", "compiler": "g++ 12", "device": "Some CPU"},
    )
    return task_context(load(tmp_path), report, rules=RULES, workspace="/w s/x", max_turns=17)


def test_the_system_message_names_the_real_device_toolchain_and_limits(context: TaskContext) -> None:
    text = Prompts(prompts_dir()).system(context)
    for word in ("Some CPU", "cores 2", "g++ 12", "torch 2.13.0", "17 turns", "/w s/x"):
        assert word in text


def test_the_task_holds_the_source_the_graph_and_the_notes(context: TaskContext) -> None:
    text = Prompts(prompts_dir()).task(context)
    for word in ("class Model: ...", "{{ not jinja }}", "aten.mul.Tensor", "helper.py", "a note", "floor 88.2 us"):
        assert word in text


CHOICES = [
    {"target": target, **{key: value}}
    for target in ("cpu", "cuda")
    for key in ("precision", "libraries", "output_lifetime")
    for value in get_args(Settings.model_fields[key].annotation)
]


@pytest.mark.parametrize("choice", CHOICES, ids=lambda choice: "-".join(choice.values()))
def test_what_the_model_reads_at_first_is_short_and_well_formed(
    context: TaskContext, choice: dict[str, Any], tmp_path: Path
) -> None:
    sandbox = FakeSandbox(tmp_path / "sandbox")
    tools: list[Tool] = [Bash(sandbox), Glob(sandbox), MultiEdit(sandbox), TodoWrite()]
    schemas = [[tool.name, tool.description, tool.parameters] for tool in tools]
    root = Path(__file__).resolve().parents[3]
    source = load(root / "examples/diag_matmul").source
    operations = frozenset({"diag_embed", "mm"})
    context = dataclasses.replace(context, **choice, source=source, tolerance="close enough", operations=operations)
    prompts = Prompts(prompts_dir())
    text = f"{prompts.system(context)}\n{prompts.task(context)}"
    assert len(text) + len(json.dumps(schemas)) < 18_000
    fences = [line for line in text.splitlines() if "```" in line]
    assert all(re.fullmatch(r"```(cpp|python)?", line) for line in fences)
    assert len(fences) % 2 == 0
    rules = text.split("# Rules\n\n")[1].split("\n\n")[0].splitlines()
    assert len(rules) == 5
    assert all(line.startswith("- ") and line.endswith(".") for line in rules)


FAMILIES = [
    ({"diag_embed", "mm"}, {"diagonal", "Matrix products"}),
    ({"mul", "add", "gelu"}, {"pointwise"}),
    ({"_softmax", "mul"}, {"softmax"}),
    ({"mse_loss"}, {"Losses"}),
    ({"addmm", "div", "sum"}, {"linear map", "Matrix products", "softmax"}),
    (set(), set()),
]


@pytest.mark.parametrize(("operations", "titles"), FAMILIES, ids=lambda value: "-".join(sorted(value)) or "none")
def test_the_task_tells_what_is_known_of_the_operators_families(
    context: TaskContext, operations: set[str], titles: set[str]
) -> None:
    prompts = Prompts(prompts_dir())
    text = prompts.task(dataclasses.replace(context, operations=frozenset(operations)))
    headings = [line for line in text.splitlines() if line.startswith("## ")]
    assert len(headings) == len(titles)
    assert all(any(title in heading for heading in headings) for title in titles)


def test_every_skill_is_short_and_says_whom_it_is_for() -> None:
    texts = {path.parent.name: path.read_text() for path in prompts_dir().glob("skills/*/SKILL.md")}
    assert {"diag_matmul", "pointwise_chain", "row_reductions", "losses", "linear_sums"} <= texts.keys()
    for text in texts.values():
        assert text.startswith("operations: ")
        assert text.count("\n## ") == 1
        assert "o gain" in text or "Little gain" in text or "seldom" in text
        assert len(text) < 2_600


def test_a_graphs_operations_are_told_by_their_names_alone(context: TaskContext) -> None:
    assert context.operations == {"t", "mul"}


NUDGES: dict[str, dict[str, Any]] = {
    "no_submission": {"reason": "there is no model_new.py"},
    "not_there_yet": {"status": "tie", "reason": "slow", "details": "", "speedup": "Speedup: 1x", "turns_left": 3},
    "final_failed": {
        "status": "tie",
        "reason": "slow",
        "details": "line 3",
        "interval": "0.9 to 1.1",
        "finals_left": 1,
    },
    "repeat": {"count": 4, "tool": "Bash"},
    "cut_off": {},
    "polish": {"speedup": "2x", "turns_left": 3},
    "background": {
        "jobs": [
            {"number": 1, "command": "make", "former": "", "log": "/state/jobs/earlier-1.log"},
            {"number": 2, "command": "python sweep.py", "former": "/state/jobs/2.log", "log": ""},
        ]
    },
    "resumed": {"turn": 7, "lost": ["'a' was not kept (over 8 MB)"]},
}


def test_every_nudge_has_its_values_in_sentences_of_their_own() -> None:
    assert sorted(NUDGES) == sorted(path.stem for path in (prompts_dir() / "nudges").iterdir())
    for name, values in NUDGES.items():
        text = Prompts(prompts_dir()).nudge(name, **values)
        said = [one for value in values.values() for one in (value if isinstance(value, list) else [value])]
        said = [part for one in said for part in (one.values() if isinstance(one, dict) else [one])]
        assert all(str(value) in text for value in said)
        assert not re.search(r"[.!?][A-Z]|\.\.|\n\n\n|  ", text), text


def test_every_template_renders_and_an_unknown_name_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "nudges").mkdir()
    (tmp_path / "nudges/x.md").write_text("{{ known }} {{ unknown }}")
    with pytest.raises(jinja2.UndefinedError):
        Prompts(tmp_path).nudge("x", known=1)


def test_the_graph_is_told_in_lines_without_views() -> None:
    text = summarise(ANALYSIS)
    assert text.splitlines() == [
        "input i0: float32 [64, 8]",
        "input i1 = 3",
        "input i2: float32 [64, 8] strides [1, 64]",
        "parameter l.weight: half [8]",
        "aten.mul.Tensor -> n1: float32 [64, 8] (512 FLOPs, 6,144 bytes)",
        "in all 512 FLOPs; 4,096 bytes must move, 6,144 move operation by operation",
    ]
    assert summarise({}) == ""


def test_a_long_graph_is_cut() -> None:
    many = {"nodes": [ANALYSIS["nodes"][1]] * 100}
    assert summarise(many).splitlines()[-1].startswith("... 60 more operations")


def test_a_long_source_loses_its_middle_at_line_ends() -> None:
    source = "".join(f"line {n}\n" for n in range(5000))
    cut = shorten(source, 1000)
    assert len(cut) < 1100
    assert cut.startswith("line 0\n")
    assert cut.endswith("line 4999\n")
    head, _, tail = cut.partition("# ... ")
    left_out = int(tail.split()[0])
    assert head.count("\n") + tail.count("\n") - 1 + left_out == 5000
    assert shorten("short") == "short"


def test_speedups_are_told_with_their_interval() -> None:
    report = Report(
        command="verdict", status="tie", speedup={"compile": Interval(1.04, 0.8, 1.25), "eager": Interval(2, 1.5, 3)}
    )
    assert speedup_line(report) == (
        "Speedup: 1.04x over torch.compile (95 % interval 0.8 to 1.25), 2x over eager (95 % interval 1.5 to 3)"
    )
    assert ratio_line(report).startswith("Time relative to torch.compile: 0.962, 95 % interval 0.800 to 1.250;")
    assert speedup_line(Report(command="verdict", status="incorrect")) == ""
    assert ratio_line(Report(command="verdict", status="incorrect")) == ""
