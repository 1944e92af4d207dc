"""What a turn costs besides the model and the commands: the loop alone, and a request in a long conversation.

    python -m bench.turn_overhead [--turns 200]

The loop: a scripted model, a tool that is done at once, a real trajectory and run folder. The request: the same
conversation at its last turn, sent through our model and through a bare `litellm.completion` in turns, to a server on
this machine.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.llm_server import says, serving

from cuda_agent.judging import Submission
from cuda_agent.llm.model import Message, Reply, ToolCall, ToolSpec
from cuda_agent.llm.openhands.model import OpenHandsModel
from cuda_agent.llm.openhands.options import resolve
from cuda_agent.llm.scripted import ScriptedModel
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.keeping import Keeping
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.stop import Limits
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.run_dir import RunDir
from cuda_agent.trajectory import Silent, Trajectory
from cuda_agent.workspace import Captured
from cuda_agent_judge.report import Report
from cuda_agent_tools.bash import Bash
from cuda_agent_tools.tool import ToolResult

OUTPUT = "[TIME] a line of what a command prints, about as long as they are\n" * 40
ROUNDS = 40


class Nothing:
    """A tool that is done at once, with an output of the usual size."""

    name = "Bash"
    description = Bash.description
    parameters: dict[str, Any] = {  # noqa: RUF012 -- as the protocol has it
        "type": "object",
        "properties": {"command": {"type": "string"}, "description": {"type": "string"}},
    }

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        """Print."""
        return ToolResult(f"{arguments['command']}\n{OUTPUT}")


class NoJudge:
    """A judge that has recorded nothing."""

    def verdict(self, *, timeout_s: float, on_output: Callable[[bytes], None] | None = None) -> Report:
        """Never asked."""
        raise NotImplementedError

    def final_verdict(
        self, submission: Submission, *, timeout_s: float, on_output: Callable[[bytes], None] | None = None
    ) -> Report:
        """Never asked."""
        raise NotImplementedError

    def new_profiles(self) -> list[Report]:
        """Return none."""
        return []


def turn(number: int) -> Reply:
    """A reply with a sentence and a call."""
    call = ToolCall(f"call-{number}", "Bash", {"command": f"echo {number}", "description": "Print a number"})
    return Reply(text=f"I expect that step {number} shows where the time goes.", tool_calls=(call,))


def loop_alone(folder: Path, turns: int) -> tuple[float, Agent]:
    """Return the median milliseconds of a turn and the agent with its conversation."""
    run = RunDir.create(folder / "run", "bench")
    with run.open_trajectory() as file:
        trajectory = Trajectory(file, Silent())
        judge = NoJudge()
        submission = Submission({"model_new.py": b"x" * 2000, "kernels/a.cpp": b"y" * 8000})
        agent = Agent(
            model=ScriptedModel([turn(number) for number in range(turns)]),
            calls=Calls([Nothing()], trajectory),
            referee=Referee(judge, run, trajectory, finals=3, time_left=lambda: 1e9),
            prompts=Prompts(prompts_dir()),
            trajectory=trajectory,
            keeping=Keeping(lambda turn: Captured(submission, "0" * 64, 0, 0, ()), trajectory),
            limits=Limits(max_turns=turns),
        )
        agent.say("You write kernels.\n" * 200, role="system")
        agent.say("Optimise this.\n" * 100)
        times = []
        for _ in range(turns):
            start = time.perf_counter()
            agent.settle(agent.step())
            times.append(1000 * (time.perf_counter() - start))
    return statistics.median(times), agent


def through_http(agent: Agent, specs: Sequence[ToolSpec]) -> tuple[float, float]:
    """Return the median milliseconds of our request and of a bare one, interleaved."""
    messages = agent.messages
    with serving([says("done")]) as server:
        model = OpenHandsModel(resolve("bench", {}, api_base=server.base), {})
        model.complete(messages, specs)
        bare = bare_request(server.base, messages, specs)
        bare()
        ours, theirs = [], []
        for _ in range(ROUNDS):
            ours.append(timed(lambda: model.complete(messages, specs)))
            theirs.append(timed(bare))
        if server.complaints:
            raise SystemExit(f"the server complains: {server.complaints[0]}")
    return statistics.median(ours), statistics.median(theirs)


def bare_request(base: str, messages: Sequence[Message], specs: Sequence[ToolSpec]) -> Callable[[], object]:
    """The same conversation as litellm takes it, ready made."""
    import litellm  # after the model has prepared its environment

    wire = [as_wire(message) for message in messages]
    tools = [
        {
            "type": "function",
            "function": {"name": one.name, "description": one.description, "parameters": one.parameters},
        }
        for one in specs
    ]
    return lambda: litellm.completion(
        model="openai/bench", api_base=base, api_key="none", messages=wire, tools=tools, max_retries=0
    )


def as_wire(message: Message) -> dict[str, Any]:
    """A message in OpenAI's format."""
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_call_id:
        wire["tool_call_id"] = message.tool_call_id
    if message.tool_calls:
        wire["tool_calls"] = [
            {"id": one.id, "type": "function", "function": {"name": one.name, "arguments": json.dumps(one.arguments)}}
            for one in message.tool_calls
        ]
    return wire


def timed(work: Callable[[], object]) -> float:
    """Return the milliseconds that it takes."""
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def main() -> int:
    """Measure and print both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    turns = parser.parse_args().turns
    with tempfile.TemporaryDirectory() as folder:
        loop_ms, agent = loop_alone(Path(folder), turns)
    print(f"loop alone: {loop_ms:.2f} ms a turn (median of {turns})")
    ours_ms, bare_ms = through_http(agent, [ToolSpec("Bash", Nothing.description, Nothing.parameters)])
    print(f"a request at turn {turns}: {ours_ms:.1f} ms, bare litellm {bare_ms:.1f} ms: {ours_ms / bare_ms:.2f}x")
    return 0 if loop_ms < 5 and ours_ms < 1.5 * bare_ms else 1


if __name__ == "__main__":
    sys.exit(main())
