"""A whole run by an LLM: the program, the SDK, litellm and HTTP on one side, a server that reasons on the other."""

import json
import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.llm_server import Answer, Asked, LlmServer, Raw, call, error, says, serving
from tests.e2e.program import ROOT, cuda_agent, environment

KEY = "sk-planted-7f3a9c51e2"
KERNEL = """#include <cstdint>
extern "C" void scale_rows_launch(const float* scale, const float* x, float* y, int64_t rows, int64_t columns) {
  for (int64_t row = 0; row < rows; ++row)
    for (int64_t place = row * columns; place < (row + 1) * columns; ++place) y[place] = scale[row] * x[place];
}
"""
BINDING = """#include "binding_registry.h"
extern "C" void scale_rows_launch(const float* scale, const float* x, float* y, int64_t rows, int64_t columns);
Tensor scale_rows(const Tensor& scale, const Tensor& x) {
  CHECK(scale.is_contiguous() && scale.scalar_type() == ScalarType::Float, "scale: contiguous float32");
  CHECK(x.is_contiguous() && x.scalar_type() == ScalarType::Float, "x: contiguous float32");
  Tensor y = empty_like(x);
  scale_rows_launch(in<float>(scale), in<float>(x), out<float>(y), x.size(0), x.size(1));
  return y;
}
REGISTER_KERNEL(scale_rows, "(Tensor scale, Tensor x) -> Tensor");
"""
MODEL_NEW = """import torch
import cuda_extension


class ModelNew(torch.nn.Module):
    def forward(self, ARGUMENTS):
        return cuda_extension.scale_rows(ARGUMENTS)
"""


class Engineer:
    """The server's side: each answer is computed from the request, and a request that makes no sense is refused."""

    def __init__(self) -> None:
        self.steps = [self.look, self.write, self.profile, self.done]
        self.step = 0
        self.limited = False

    def __call__(self, asked: Asked) -> Answer:
        if not self.limited:
            self.limited = True
            return error(429, "slow down", retry_after="0.2")
        answer = self.steps[min(self.step, len(self.steps) - 1)](asked)
        self.step += not isinstance(answer, Raw)
        return answer

    def look(self, asked: Asked) -> Answer:
        todo = {"content": "Scale rows", "status": "in_progress", "activeForm": "Scaling rows"}
        # A server may say anything, the key that it was sent too.
        return says(
            f"I was called with {asked.headers['authorization']}.",
            call("c0", "TodoWrite", {"todos": [todo]}),
            call("c0", "Bash", {"command": "cat model.py; env | sort; cat /proc/$PPID/environ | tr '\\0' '\\n'"}),
            call("c1", "Bash", '{"command": "ls'),
            reasoning_content="A product with a diagonal matrix.",
        )

    def write(self, asked: Asked) -> Answer:
        thought = [message for message in asked.messages if message["role"] == "assistant"]
        if thought[0].get("reasoning_content") != "A product with a diagonal matrix.":
            return error(400, "reasoning_content must be passed back")
        seen, broken = observations(asked)[-2:]
        if "valid JSON" not in broken or "class Model" not in seen:
            return error(400, "the answers are not those of the calls")
        names = re.search(r"def forward\(self, ([^):]+)[^,)]*, ([^):]+)", seen)
        if names is None:
            return error(400, "no forward in what was read")
        source = MODEL_NEW.replace("ARGUMENTS", f"{names[1]}, {names[2]}")
        return says(
            "",
            call(None, "MultiEdit", created("kernels/scale_rows.cpp", KERNEL)),
            call(None, "MultiEdit", created("kernels/scale_rows_binding.cpp", BINDING)),
            call(None, "MultiEdit", created("model_new.py", source)),
            call(
                None, "Bash", {"command": "bash utils/compile.sh && python3 -m utils.verification", "timeout": 300000}
            ),
        )

    def profile(self, asked: Asked) -> Answer:
        if "[PASS]" not in observations(asked)[-1]:
            return error(400, "not verified")
        return says(None, call("c0", "Bash", {"command": "python3 -m utils.profiling", "timeout": 300000}))

    def done(self, asked: Asked) -> Answer:
        return says("done")


def observations(asked: Asked) -> list[str]:
    return [str(message["content"]) for message in asked.messages if message["role"] == "tool"]


def created(path: str, text: str) -> Mapping[str, Any]:
    return {"file_path": path, "edits": [{"old_string": "", "new_string": text}]}


@dataclass(frozen=True)
class Run:
    done: subprocess.CompletedProcess[str]
    folder: Path
    asked: Sequence[Asked]
    server: LlmServer


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory, sandbox_python: str) -> Run:
    place = tmp_path_factory.mktemp("llm")
    with serving(Engineer()) as server:
        done = cuda_agent(
            "optimize",
            ROOT / "examples/diag_matmul/model.py",
            *("--model", "Qwen/Qwen3-Coder", "--api-base", server.base, "--api-key-env", "PLANTED"),
            *("--target", "cpu", "--python", sandbox_python, "--max-turns", "8", "--run-dir", "run", "--json"),
            cwd=place,
            env=environment(PLANTED=KEY, OPENAI_API_KEY="sk-another-key-0000"),
            timeout_s=600,
        )
    return Run(done, place / "run", tuple(server.asked), server)


def test_an_llm_reaches_the_target_over_http(run: Run) -> None:
    assert run.done.returncode == 0, run.done.stderr
    document = json.loads(run.done.stdout)
    assert document["stop"]["reason"] == "target_reached"
    assert (document["result"]["status"], document["result"]["final"]) == ("win", True)
    assert run.server.complaints == []


def test_a_request_that_was_turned_away_is_made_again_and_said(run: Run) -> None:
    assert run.asked[1].body == run.asked[0].body
    assert "rate limit; asking again" in run.done.stderr


def test_tokens_are_counted_and_an_unknown_price_stays_unknown(run: Run) -> None:
    usage = json.loads((run.folder / "run.json").read_text())["usage"]
    assert usage["input_tokens"] == 100 * (len(run.asked) - 1)  # the first request was turned away
    assert usage["cost_usd"] is None


def test_the_server_gets_its_own_model_name_our_schemas_and_no_setting_that_nobody_chose(run: Run) -> None:
    body = run.asked[0].body
    assert body["model"] == "Qwen/Qwen3-Coder"
    assert {tool["function"]["name"] for tool in body["tools"]} == {"Bash", "Glob", "MultiEdit", "TodoWrite"}
    assert body.keys() <= {"model", "messages", "tools"}


def test_the_key_went_to_the_server_and_nowhere_else(run: Run) -> None:
    assert {asked.headers["authorization"] for asked in run.asked} == {f"Bearer {KEY}"}
    files = [path for path in run.folder.rglob("*") if path.is_file()]
    assert len(files) > 10
    holding = [path for path in files if KEY.encode() in path.read_bytes() or b"sk-another" in path.read_bytes()]
    assert holding == []
    assert "I was called with Bearer [key]." in (run.folder / "trajectory.jsonl").read_text()
    assert KEY not in run.done.stdout + run.done.stderr


def test_the_key_is_not_in_the_sandbox(run: Run) -> None:
    seen = observations(run.asked[2])[1]
    assert "PATH=" in seen
    for secret in (KEY, "sk-another", "PLANTED", "API_KEY"):
        assert secret not in seen, secret
