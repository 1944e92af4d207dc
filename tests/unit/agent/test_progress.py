import fcntl
import os
import struct
import termios
from pathlib import Path
from typing import Any

import pytest

from cuda_agent.cli.progress import WIDTH, Progress, width_of
from cuda_agent.trajectory import CallStarted, Event, Judged, MessageAdded, Notice, Observation

LONG = "word " * 100
ONE_WORD = "x" * 500


def shown(capsys: pytest.CaptureFixture[str], *events: Event) -> list[str]:
    progress = Progress()
    for event in events:
        progress.on_event(event)
    return capsys.readouterr().out.splitlines()


def judged(speedup: float | None, *, status: str = "win", final: bool = False, submission: str = "a") -> Judged:
    report: dict[str, Any] = {"status": status, "final": final, "submission_sha256": submission, "reason": "off by 3"}
    return Judged(1, report | ({"speedup": {"compile": {"median": speedup}}} if speedup else {}))


@pytest.mark.parametrize(("columns", "width"), [(80, 80), (300, WIDTH), (20, WIDTH), (0, WIDTH)])
def test_lines_are_no_wider_than_the_terminal(columns: int, width: int) -> None:
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with open(slave, "w") as terminal:
        assert width_of(terminal) == width
    os.close(master)


def test_lines_for_a_pipe_have_the_usual_width(tmp_path: Path) -> None:
    with open(tmp_path / "out", "w") as out:
        assert width_of(out) == WIDTH


@pytest.mark.parametrize("text", [LONG, ONE_WORD, "a\x1b[31mb\n" + LONG])
def test_no_line_is_wider_than_it_should_be_or_cut_within_a_word(capsys: pytest.CaptureFixture[str], text: str) -> None:
    lines = shown(
        capsys,
        MessageAdded(1, "assistant", text),
        CallStarted(1, "c", "Bash", {"command": text}),
        Observation(1, "c", "Bash", text, False, 0.1),
        judged(None, status="incorrect"),
    )
    assert len(lines) == 6  # two for what the model said, two for what a command answered
    assert max(map(len, lines)) <= WIDTH
    assert all(line.isprintable() for line in lines)
    assert all(lines[k].endswith(("word ...", "x ...")) for k in (1, 2, 4))


def test_a_notice_is_shown_whole_and_its_paths_in_one_piece(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Notice(0, f"the Python {ONE_WORD} is used")) == [
        "the Python",
        f"{'':12}{ONE_WORD}",
        f"{'':12}is used",
    ]


def test_the_best_number_is_the_final_one_once_there_is_one(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(
        capsys,
        judged(98.3),
        judged(80.0, final=True),
        judged(70.0, submission="b"),
        judged(75.0, submission="b", final=True),
    )
    assert lines == [
        "verdict: win, 98.3x over torch.compile",
        "final verdict: win, 80x over torch.compile",
        "verdict: win, 70x over torch.compile (best so far 80x)",
        "final verdict: win, 75x over torch.compile (best so far 80x)",
    ]


def test_what_a_final_verdict_refutes_is_not_the_best_any_more(capsys: pytest.CaptureFixture[str]) -> None:
    lines = shown(
        capsys, judged(9.0), judged(None, status="incorrect", final=True), judged(2.0, status="tie", submission="b")
    )
    assert lines[1:] == ["final verdict: incorrect: off by 3", "verdict: tie, 2x over torch.compile"]


def test_the_line_before_the_json_is_what_a_command_is_known_by(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, Observation(1, "c", "Bash", "first\n[PASS] right\n{}", False, 0.1)) == [f"{'':12}[PASS] right"]
