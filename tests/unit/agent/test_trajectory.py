import json
from pathlib import Path

import pytest

from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile
from cuda_agent.trajectory import (
    CallStarted,
    Event,
    Judged,
    MessageAdded,
    Notice,
    Observation,
    RunStarted,
    Silent,
    SnapshotTaken,
    StageStarted,
    Stopped,
    Trajectory,
    read,
)

EVENTS: list[Event] = [
    RunStarted("op", "0" * 64, "scripted", {"max_turns": 3}, {"torch": "2"}),
    StageStarted(0, "analyze"),
    MessageAdded(1, "assistant", "plän\u2028 \ud800", tool_calls=[{"id": "a", "name": "Bash", "arguments": None}]),
    CallStarted(1, "a", "Bash", {"command": "ls"}),
    Observation(1, "a", "Bash", "out\nput", False, 0.25),
    SnapshotTaken(1, "turn-0001.json", "f" * 64),
    Judged(1, {"status": "win"}, "turn-0001.json"),
    Notice(1, "something"),
    Stopped(1, "target_reached"),
]


def test_every_event_is_a_line_at_once_and_comes_back(tmp_path: Path) -> None:
    file = tmp_path / "trajectory.jsonl"
    with LineFile(file) as lines:
        trajectory = Trajectory(lines, Silent())
        for number, event in enumerate(EVENTS, start=1):
            trajectory.add(event)
            assert file.read_bytes().count(b"\n") == number
    heads = [json.loads(line) for line in file.read_bytes().splitlines()]
    assert [head["seq"] for head in heads] == list(range(len(EVENTS)))
    assert {head["schema"] for head in heads} == {1}
    back = read(file)
    assert [event.type for event in back] == [event.type for event in EVENTS]
    assert back[3:] == EVENTS[3:]


def test_a_last_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "trajectory.jsonl"
    with LineFile(file) as lines:
        Trajectory(lines, Silent()).add(Notice(0, "whole"))
    with open(file, "ab") as raw:
        raw.write(b'{"schema": 1, "ty')
    assert read(file) == [Notice(0, "whole")]


@pytest.mark.parametrize(
    "line", ['{"schema": 2, "type": "notice"}', "[]", '{"schema": 1, "type": "other"}', "nonsense"]
)
def test_another_format_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "t").write_text(line + "\n")
    with pytest.raises(ConfigError, match="line 1"):
        read(tmp_path / "t")
