"""A real run (loop, store, trajectory, tools, local sandbox) with a cheap judge, killed again and again in a child.

    python killed_run.py FOLDER SEED KILLS

Prints a JSON document: how often the run was killed, what had been on disk then, and how it ended.
"""

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tests.unit.agent.quick import OPERATOR, PLACE, QuickJudge

from cuda_agent.config import Settings
from cuda_agent.llm.model import Message, Reply, ToolCall, ToolSpec, Usage
from cuda_agent.operators import Operator, load
from cuda_agent.run_dir import RunDir, load_document
from cuda_agent.runs.beginning import Beginning
from cuda_agent.runs.record import Record
from cuda_agent.runs.resume import past_of
from cuda_agent.runs.session import by_itself
from cuda_agent.runs.single import carry_out
from cuda_agent.trajectory import Silent

TURNS = 8
EVENTS = 16
"""At most so many more events from kill to kill; a start has six of its own, a turn eight."""


class Steady:
    """Writes the versions in order, two calls a turn, says twice that it is done, and redoes what was interrupted."""

    name = "steady"

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        time.sleep(0.005)
        answers = {message.tool_call_id: message.content for message in messages if message.role == "tool"}
        version = 1
        for message in messages:
            if message.role == "assistant" and message.tool_calls:
                version += not any("Interrupted" in answers[call.id] for call in message.tool_calls)
        last = [message for message in messages if message.role in ("assistant", "tool")][-1:]
        said_done = bool(last) and last[0].role == "assistant"
        usage = Usage(10, 5, 0, 0.5)
        if version in (4, TURNS + 1) and not said_done:
            return Reply(text="done", usage=usage)
        number = sum(len(message.tool_calls) for message in messages)
        return Reply(tool_calls=_calls(version, number), finish_reason="tool_calls", usage=usage)


def _calls(version: int, number: int) -> tuple[ToolCall, ...]:
    text = f"version {version}"
    count = f'echo "call $COUNT {number}" >> journal; export COUNT={number}'
    shell = f"{count}; mkdir -p kernels; printf {number} > kernels/k.cpp"
    new = f"rm -f model_new.py; printf '%s' '{text}' > model_new.py; sleep 0.02"
    return (
        ToolCall(f"c{number}", "Bash", {"command": shell}),
        ToolCall(f"c{number + 1}", "Bash", {"command": new}),
    )


def go_on(folder: Path, path: Path) -> int:
    """Begin the run of an operator, or go on with it, to its end; return the exit code."""
    if (folder / "run.json").exists():
        document = load_document(folder)
        run = RunDir(folder)
        settings = Settings.model_validate(document["settings"])
        operator = Operator(path.stem, path, run.load_operator(), document["operator"]["sha256"])
        with run.open_trajectory() as log:
            past = past_of(run, log)
            record = Record.reopened(run, document, settings, PLACE.described)
            begin = Beginning(settings, operator, PLACE, run, record, log, past)
            return carry_out(begin, Steady(), Silent(), by_itself, judge=QuickJudge).exit_code
    operator = load(path)
    settings = Settings(operator=operator.path)
    if folder.exists():
        RunDir(folder).remove()  # killed before there was a run
    run = RunDir.create(folder, operator.name)
    with run.open_trajectory() as log:
        run.keep_operator(operator.files)
        record = Record(run, operator, settings, PLACE.described)
        begin = Beginning(settings, operator, PLACE, run, record, log)
        return carry_out(begin, Steady(), Silent(), by_itself, judge=QuickJudge).exit_code


def attempt(folder: Path, kill_after: Callable[[], bool] | None) -> tuple[bool, int]:
    """Run in a child; return whether it was killed, and its exit code."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = go_on(folder, folder.with_name("op.py"))
        finally:
            os._exit(code)
    while kill_after is not None and not kill_after():
        if os.waitpid(child, os.WNOHANG)[0]:
            return False, 0
    if kill_after is not None:
        os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    return os.WIFSIGNALED(status), os.waitstatus_to_exitcode(status)


def _events(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def main() -> None:
    """Kill the run at random moments, then let it end."""
    folder, seed, kills = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(seed)
    folder.with_name("op.py").write_text(OPERATOR)
    log = folder / "trajectory.jsonl"
    prefixes: list[bytes] = []
    for _ in range(kills):
        until, wait = _events(log) + draw.randrange(EVENTS), draw.random() * 0.06

        def due(until: int = until, wait: float = wait) -> bool:
            if _events(log) < until:
                time.sleep(0.001)
                return False
            time.sleep(wait)
            return True

        killed, code = attempt(folder, due)
        if not killed:
            assert code == 0, code
            break
        prefixes.append(log.read_bytes() if log.exists() else b"")
    code = (
        0 if (folder / "run.json").exists() and load_document(folder)["status"] == "done" else attempt(folder, None)[1]
    )
    whole = log.read_bytes()
    kept = [prefix[: prefix.rfind(b"\n") + 1] for prefix in prefixes]
    document: dict[str, Any] = {
        "kills": len(prefixes),
        "exit_code": code,
        "kept": [whole.startswith(prefix) for prefix in kept],
    }
    print(json.dumps(document))


if __name__ == "__main__":
    main()
