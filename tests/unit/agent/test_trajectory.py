import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile
from cuda_agent.history import mend, read, read_history, standing
from cuda_agent.trajectory import (
    CallChanged,
    CallStarted,
    Event,
    Forked,
    Judged,
    Known,
    MessageAdded,
    Notice,
    Observation,
    Resumed,
    Rewound,
    RunStarted,
    SandboxStarted,
    Silent,
    SnapshotTaken,
    StageStarted,
    Stopped,
    Trajectory,
    TurnEnded,
    Unknown,
    line,
)

EVENTS: list[Known] = [
    RunStarted("op", "0" * 64, "scripted", {"max_turns": 3}, {"torch": "2"}, {"run": "/r", "turn": 2}),
    StageStarted(0, "analyze"),
    MessageAdded(1, "assistant", "plän\u2028 \ud800", tool_calls=[{"id": "a", "name": "Bash", "arguments": None}]),
    SandboxStarted(0, "local", "/w", "/s"),
    CallStarted(1, "a", "Bash", {"command": "ls"}),
    CallChanged(1, "a", "Bash", {"command": "ls -l"}, {"name": "Bash", "arguments": {"command": "ls"}}),
    Observation(1, "a", "Bash", "out\nput", False, 0.25),
    SnapshotTaken(1, "b" * 64, "f" * 64, 2, 0, ["'big' (too large)"]),
    Judged(1, {"status": "win"}, "b" * 64),
    TurnEnded(1, "b" * 64, "f" * 64, {"idle": 0, "polish_left": None, "finals_left": 3, "elapsed_s": 1.5}),
    Rewound(0, 1),
    Forked(0, "/other", "builtin"),
    Resumed(0, "builtin", {}),
    Notice(1, "something"),
    Stopped(1, "target_reached"),
]


def written(path: Path, *events: Known) -> bytes:
    """The bytes of a trajectory of these events, which is now in `path`."""
    with LineFile(path) as lines:
        trajectory = Trajectory(lines, Silent())
        for event in events:
            trajectory.add(event)
    return path.read_bytes()


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
    assert read_history(file).notices == ()


TORN = [
    b'{"schema": 1, "ty',
    b"\0" * 300,
    b'{"schema": 1, "ty' + b"\0" * 300,
    b'{"schema": 1, "ty' + b"\0" * 300 + b"\n",
    b"\0" * 300 + b"\n",
    b"\xff\xfe",
]


@pytest.mark.parametrize("torn", TORN)
def test_what_a_crash_leaves_at_the_end_is_left_out_said_and_cut_off(tmp_path: Path, torn: bytes) -> None:
    file = tmp_path / "trajectory.jsonl"
    whole = written(file, *EVENTS)
    file.write_bytes(whole + torn)
    history = read_history(file)
    assert len(history.events) == len(EVENTS)
    assert len(history.notices) == 1
    assert "crash" in history.notices[0]
    with LineFile(file) as lines:
        mend(lines, history)
        Trajectory(lines, Silent(), seq=len(history.events)).add(Notice(9, "next"))
    assert file.read_bytes().startswith(whole)
    assert read(file)[-1] == Notice(9, "next")


@pytest.mark.parametrize("cut", [1, 2, 20])
def test_a_last_line_of_which_the_end_is_missing_is_kept_only_if_it_is_whole(tmp_path: Path, cut: int) -> None:
    file = tmp_path / "trajectory.jsonl"
    file.write_bytes(written(file, *EVENTS)[:-cut])
    history = read_history(file)
    assert len(history.events) == len(EVENTS) - (cut > 1)
    with LineFile(file) as lines:
        mend(lines, history)
        Trajectory(lines, Silent(), seq=len(history.events)).add(Notice(9, "next"))
    assert len(read(file)) == len(history.events) + 1


def line_two(spoiled: bytes) -> bytes:
    """Three lines of which the second is this."""
    lines = [line(Notice(0, str(seq)), seq, datetime.now(UTC)) for seq in range(3)]
    return b"\n".join([lines[0], spoiled, lines[2], b""])


@pytest.mark.parametrize(
    "spoiled",
    [
        b"\0" * 300,
        b'{"schema": 1, "ty',
        b'{"schema": 1, "ty{"schema": 1, "seq": 1, "time": "2026-01-01T00:00:00", "type": "notice"}',
        b"[]",
        b"nonsense",
        b'{"schema": 1, "seq": 1, "time": "2026-01-01T00:00:00", "type": "notice", "turn": 0}',
        b'{"schema": 1, "seq": 1, "time": "yesterday", "type": "notice", "turn": 0, "text": ""}',
        b'{"schema": "x", "seq": 1, "time": "2026-01-01T00:00:00", "type": "notice", "turn": 0, "text": ""}',
        b'{"schema": 1, "seq": 2, "time": "2026-01-01T00:00:00", "type": "notice", "turn": 0, "text": ""}',
    ],
)
def test_damage_before_the_end_is_refused_with_its_line(tmp_path: Path, spoiled: bytes) -> None:
    (tmp_path / "t").write_bytes(line_two(spoiled))
    with pytest.raises(ConfigError, match="damaged in line 2"):
        read(tmp_path / "t")


def test_a_line_that_is_missing_is_noticed(tmp_path: Path) -> None:
    lines = written(tmp_path / "t", *EVENTS).splitlines(keepends=True)
    (tmp_path / "t").write_bytes(b"".join(lines[:4] + lines[5:]))
    with pytest.raises(ConfigError, match="events are missing"):
        read(tmp_path / "t")


def test_blank_lines_are_no_damage(tmp_path: Path) -> None:
    data = written(tmp_path / "t", *EVENTS)
    (tmp_path / "t").write_bytes(data.replace(b"\n", b"\n\n", 4))
    assert len(read(tmp_path / "t")) == len(EVENTS)


def test_what_a_later_version_added_is_kept_or_left_out_and_said(tmp_path: Path) -> None:
    head = '{"schema": 1, "seq": %d, "time": "2026-01-01T00:00:00+00:00", '
    (tmp_path / "t").write_text(
        head % 0
        + '"type": "notice", "turn": 0, "text": "t", "colour": "red"}\n'
        + head % 1
        + '"type": "new", "a": 1}\n'
    )
    history = read_history(tmp_path / "t")
    assert history.events == (Notice(0, "t"), Unknown("new", {"a": 1}))
    assert "'colour' of 'notice'" in history.notices[0]
    assert "'new'" in history.notices[0]


def test_a_later_schema_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").write_text('{"schema": 2, "seq": 0, "type": "notice"}\n')
    with pytest.raises(ConfigError, match="later version"):
        read(tmp_path / "t")


def ended(turn: int) -> TurnEnded:
    return TurnEnded(turn, "", "", {})


def test_what_was_gone_back_over_no_longer_stands() -> None:
    said = [Notice(turn, str(turn)) for turn in range(4)]
    events: list[Event] = [
        said[0],
        ended(0),
        said[1],
        ended(1),
        said[2],
        Rewound(1, 2),
        said[3],
        ended(2),
        Rewound(0, 2),
        said[2],
    ]
    assert standing(events) == [said[0], ended(0), said[2]]
