"""A whole run with real parts: a script that reads what it is told writes, mends, verifies and profiles a kernel."""

import json
import re
from pathlib import Path

import pytest
from tests.e2e.program import cuda_agent

from cuda_agent.config import Settings
from cuda_agent.history import read
from cuda_agent.llm.model import Reply, ToolCall
from cuda_agent.llm.scripted import Request, ScriptedModel
from cuda_agent.runs.single import Outcome, optimize
from cuda_agent.trajectory import CallStarted, Judged, Observation, Silent

OPERATOR = """
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.diag(a) @ b


def get_inputs():
    return [torch.randn(1024), torch.randn(1024, 512)]


def get_init_inputs():
    return []
"""
# One name is wrong: the compiler says which, and what it may be. One thread: a busy machine must not decide the test.
KERNEL = """#include <cstdint>
extern "C" void NAME_launch(const float* scale, const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row) {
    const float factor = scale[row];
    for (int64_t column = 0; column < columns; ++column) y[row * columns + column] = facter * x[row * columns + column];
  }
}
"""
BINDING = """#include "binding_registry.h"
extern "C" void NAME_launch(const float* scale, const float* x, float* y, int64_t rows, int64_t columns);
Tensor NAME(const Tensor& scale, const Tensor& x) {
  CHECK(scale.is_contiguous() && scale.scalar_type() == ScalarType::Float, "scale: contiguous float32");
  CHECK(x.is_contiguous() && x.scalar_type() == ScalarType::Float, "x: contiguous float32");
  Tensor y = empty_like(x);
  NAME_launch(in<float>(scale), in<float>(x), out<float>(y), x.size(0), x.size(1));
  return y;
}
REGISTER_KERNEL(NAME, "(Tensor scale, Tensor x) -> Tensor");
"""
MODEL_NEW = """import torch
import cuda_extension


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return cuda_extension.NAME(a, b)
"""
TIMES = re.compile(r"Torch Baseline: ([\d.]+)us, Torch Compile: ([\d.]+)us(?:, CUDA Extension: ([\d.]+)us)?")
UNDECLARED = re.compile(r"(kernels/\w+\.cpp):\d+:\d+: error: .(\w+). was not declared.*?did you mean .(\w+).", re.S)


def bash(identity: str, command: str) -> ToolCall:
    return ToolCall(identity, "Bash", {"command": command, "timeout": 300_000, "description": identity})


def create(identity: str, path: str, text: str) -> ToolCall:
    return ToolCall(identity, "MultiEdit", {"file_path": path, "edits": [{"old_string": "", "new_string": text}]})


class Script:
    """Each step goes on from what the last one was told; a wrong answer derails it."""

    def __init__(self) -> None:
        self.name = ""

    def plan(self, request: Request) -> Reply:
        assert {tool.name for tool in request.tools} == {"Bash", "Glob", "MultiEdit", "TodoWrite"}
        source = re.search(r"torch\.diag\((\w)\) @ (\w)", request.last.content)
        assert source is not None
        self.name = f"rows_{source[1]}_{source[2]}"
        todo = {"content": "Scale rows", "status": "in_progress", "activeForm": "Scaling rows"}
        return self._calls(
            ToolCall("plan", "TodoWrite", {"todos": [todo]}),
            bash("look", "cat model.py && cd kernels 2>/dev/null; cd ~- 2>/dev/null; export LIMIT=$((2 * 3))"),
            bash("base", "echo limit=$LIMIT; python3 -m utils.profiling --baseline"),
        )

    def write(self, request: Request) -> Reply:
        assert "get_inputs" in request.answer_to("look")
        assert "limit=6" in request.answer_to("base")
        times = TIMES.search(request.answer_to("base"))
        assert times is not None, request.answer_to("base")
        assert times[3] is None  # there is nothing to time yet
        return self._calls(
            create("kernel", f"kernels/{self.name}.cpp", KERNEL.replace("NAME", self.name)),
            create("binding", f"kernels/{self.name}_binding.cpp", BINDING.replace("NAME", self.name)),
            create("module", "model_new.py", MODEL_NEW.replace("NAME", self.name)),
            ToolCall("files", "Glob", {"pattern": "kernels/*.cpp"}),
            bash("build", "bash utils/compile.sh"),
        )

    def fix(self, request: Request) -> Reply:
        assert f"{self.name}_binding.cpp" in request.answer_to("files")
        found = UNDECLARED.search(request.answer_to("build"))
        assert found is not None, request.answer_to("build")
        edit = {"old_string": f"= {found[2]} *", "new_string": f"= {found[3]} *"}
        return self._calls(
            ToolCall("mend", "MultiEdit", {"file_path": found[1], "edits": [edit]}),
            bash("again", "bash utils/compile.sh && echo built=$LIMIT"),
        )

    def verify(self, request: Request) -> Reply:
        assert "built=6" in request.answer_to("again"), request.answer_to("again")
        return self._calls(bash("check", "python3 -m utils.verification"))

    def profile(self, request: Request) -> Reply:
        assert "[PASS]" in request.answer_to("check"), request.answer_to("check")
        return self._calls(bash("time", "python3 -m utils.profiling"))

    def done(self, request: Request) -> Reply:
        times = TIMES.search(request.answer_to("time"))
        assert times is not None, request.answer_to("time")
        assert float(times[3]) < 0.95 * float(times[2])
        assert "target is reached" in request.last.content
        return Reply(text="done")

    def model(self) -> ScriptedModel:
        return ScriptedModel([self.plan, self.write, self.fix, self.verify, self.profile, self.done])

    def _calls(self, *calls: ToolCall) -> Reply:
        return Reply(tool_calls=calls, finish_reason="tool_calls")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("ein lauf mit größe")
    (made / "model.py").write_text(OPERATOR)
    return made


@pytest.fixture(scope="module")
def outcome(folder: Path, sandbox_python: str) -> Outcome:
    settings = Settings(
        operator=folder / "model.py",
        target="cpu",
        python=Path(sandbox_python),
        run_dir=folder / "run",
        polish=1,
        max_turns=8,
    )
    return optimize(settings, listener=Silent(), model=Script().model())


def test_the_run_reaches_the_target_with_a_final_verdict(outcome: Outcome) -> None:
    assert outcome.exit_code == 0
    assert outcome.document["stop"]["reason"] == "target_reached"
    result = outcome.document["result"]
    assert (result["status"], result["final"]) == ("win", True)
    assert result["speedup"]["compile"]["low"] > 1 / 0.95


def test_every_call_was_answered_once_and_the_failed_build_was_an_answer(outcome: Outcome) -> None:
    events = read(outcome.folder / "trajectory.jsonl")
    asked = [event.id for event in events if isinstance(event, CallStarted)]
    answered = [event.id for event in events if isinstance(event, Observation)]
    assert asked == answered
    build = next(event for event in events if isinstance(event, Observation) and event.id == "build")
    assert "error:" in build.text
    finals = [event.report["final"] for event in events if isinstance(event, Judged)]
    assert finals == [False, True]


def test_what_is_left_is_the_run_and_nothing_half_done(outcome: Outcome) -> None:
    names = sorted(path.name for path in outcome.folder.iterdir())
    assert names == ["best", "operator", "run.json", "snapshots", "state", "trajectory.jsonl", "workspace"]
    assert json.loads((outcome.folder / "run.json").read_text())["status"] == "done"
    assert (outcome.folder / "best" / "model_new.py").read_text() == MODEL_NEW.replace("NAME", "rows_a_b")
    assert len(list((outcome.folder / "best" / "kernels").iterdir())) == 2


def test_the_judge_alone_says_the_same_of_best(outcome: Outcome, folder: Path, sandbox_python: str) -> None:
    arguments = ("judge", "model.py", outcome.folder / "best", "--target", "cpu", "--python", sandbox_python, "--json")
    done = cuda_agent(*arguments, cwd=folder)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert (report["status"], report["final"]) == ("win", True)
