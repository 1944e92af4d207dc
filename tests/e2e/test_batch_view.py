"""A batch as a person sees it: at a terminal, and without one."""

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.program import ROOT, SOURCES, environment
from tests.e2e.terminal import Terminal
from tests.unit.agent.batch.field import Field

DRIVER = Path(__file__).with_name("batch_driver.py")


def command(field: Field) -> tuple[list[str], dict[str, str]]:
    kept = {name: value for name, value in environment().items() if name != "NO_COLOR"}
    path = os.pathsep.join([*SOURCES, str(ROOT)])
    return [sys.executable, str(DRIVER), str(field.root), "2", "stand-in"], {**kept, "PYTHONPATH": path}


def left_running(field: Field) -> list[bytes]:
    lines = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    return [line for line in lines if str(field.root).encode() in line]


def test_at_a_terminal_a_table_shows_what_runs_and_an_interrupt_ends_it_in_order(tmp_path: Path) -> None:
    field = Field(tmp_path)
    field.lay(a_first="win", b_second="win 600", c_third="win 600", d_fourth="win 600")
    argv, env = command(field)
    with Terminal(argv, cwd=tmp_path, env=env) as terminal:
        terminal.wait_for("a_first: win, 2x over torch.compile (target reached, 3 turns)")
        terminal.wait_for("operator")
        shown = terminal.wait_for_count("$0.25", 2)
        assert "1/4, 1 won, 0 failed" in shown
        heads, *rows = shown[shown.rindex("operator") :].splitlines()
        assert heads.split() == ["operator", "stage", "turn", "best", "cost", "time"]
        assert [row.split()[0] for row in rows] == ["b_second", "c_third"]
        terminal.type("\x03")
        terminal.wait_for("Interrupted: what runs (2) will end in order")
        assert terminal.leave() == 130
        assert "interrupted: 3 of 4 are left to do." in terminal.text
        assert "━" not in terminal.text  # the bar is gone
    assert left_running(field) == []
    finals = [path for path in field.batch.glob("runs/*/trajectory.jsonl") if b'"final": true' in path.read_bytes()]
    assert len(finals) == 3


def test_a_second_interrupt_ends_everything_at_once(tmp_path: Path) -> None:
    field = Field(tmp_path)
    field.lay(first="stubborn", second="stubborn")
    argv, env = command(field)
    with Terminal(argv, cwd=tmp_path, env=env) as terminal:
        terminal.wait_for("operator")
        terminal.until(lambda: len(list(field.batch.glob("runs/*/trajectory.jsonl"))) == 2, "two runs", 60)
        terminal.type("\x03")
        terminal.wait_for("Interrupted: what runs (2) will end in order")
        terminal.type("\x03")
        terminal.wait_for("will end at once")
        assert terminal.leave() == 130
    assert left_running(field) == []


def test_without_a_terminal_each_run_is_a_line(tmp_path: Path) -> None:
    field = Field(tmp_path)
    field.lay(first="win", second="bad", third="nothing")
    argv, env = command(field)
    done = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True)
    lines = done.stdout.splitlines()
    assert lines[0] == "3 runs"
    assert len(lines) == 8
    assert any(line.startswith("second: the operator cannot be used: It has no `class Model`.  [") for line in lines)
    assert any(line.startswith("third: no right kernel (gave up, 3 turns)  [") for line in lines)
    assert "\x1b" not in done.stdout
    again = subprocess.run(argv, env=env, cwd=tmp_path, capture_output=True, text=True)
    assert again.stdout.splitlines()[0] == "3 runs, 3 of them done before"
