"""The live view on a real terminal (tmux keeps the screen), whatever a model or a command prints."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.e2e.program import ROOT, SOURCES, environment

DRIVER = [sys.executable, "-m", "tests.e2e.live_driver"]
HEIGHT = 30
REFRESHES = 5
"""So many the view would have made while the question stands."""


def driver_environment(**more: str) -> dict[str, str]:
    paths = os.pathsep.join([*SOURCES, str(ROOT)])
    kept = {name: value for name, value in environment().items() if name not in ("NO_COLOR", "TMUX")}
    return {**kept, "PYTHONPATH": paths, "LC_ALL": "C.UTF-8", **more}


class Screen:
    """A terminal of a given width, and what stands on it."""

    def __init__(self, folder: Path, width: int) -> None:
        self.folder = folder
        self._tmux = ["tmux", "-u", "-S", str(folder / "socket")]
        size = ["-x", str(width), "-y", str(HEIGHT)]
        run = [*self._tmux, "-f", "/dev/null", "new-session", "-d", *size, *DRIVER, str(folder)]
        subprocess.run(run, env=driver_environment(), cwd=folder, check=True)

    def lines(self) -> list[str]:
        done = subprocess.run([*self._tmux, "capture-pane", "-p"], capture_output=True, text=True, check=True)
        return [line.rstrip() for line in done.stdout.splitlines()]

    def title(self) -> str:
        shown = subprocess.run([*self._tmux, "display", "-p", "#T #{cursor_flag}"], capture_output=True, text=True)
        return shown.stdout.strip()

    def type(self, *keys: str) -> None:
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def when(self, there: Callable[[list[str]], bool]) -> list[str]:
        deadline = time.monotonic() + 60
        while not there(lines := self.lines()):
            assert time.monotonic() < deadline, "\n".join(lines)
            time.sleep(0.1)
        return lines

    def close(self) -> None:
        (self.folder / "go").unlink(missing_ok=True)
        subprocess.run([*self._tmux, "kill-server"], check=False)


@pytest.fixture
def open_screen(tmp_path: Path) -> Iterator[Callable[[int], Screen]]:
    opened: list[Screen] = []

    def make(width: int) -> Screen:
        opened.append(Screen(tmp_path, width))
        return opened[-1]

    yield make
    for screen in opened:
        screen.close()


def asked(lines: list[str]) -> int:
    return sum(line.startswith("Interrupted. [c]ontinue, [d]ebug or [s]top?") for line in lines)


def is_asked(lines: list[str], *, times: int) -> bool:
    return asked(lines) == times


def frame(lines: list[str]) -> list[str]:
    start = next(place for place, line in enumerate(lines) if line.startswith("╭"))
    end = next(place for place, line in enumerate(lines) if line.startswith("╰"))
    return lines[start : end + 1]


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux keeps the screen that is looked at")
@pytest.mark.parametrize("width", [80, 120])
def test_the_view_stands_and_goes_whatever_is_printed(open_screen: Callable[[int], Screen], width: int) -> None:
    screen = open_screen(width)
    lines = screen.when(lambda lines: any("still running" in line for line in lines))
    shown = frame(lines)
    assert {len(line) for line in shown} == {width - 1}
    assert all(line.startswith("│ ") and line.endswith(" │") for line in shown[1:-1])
    assert sum(line.startswith("╭") for line in lines) == 1
    assert "diag_matmul · openai/some-model" in shown[0]
    where, doing, said, plan, best, used = (line.strip("│ ") for line in shown[1:-1])
    assert where.startswith("turn 3 of 200  profile  ")
    assert " s  Bash: cd x && python3 -m utils.profiling" in doing
    assert doing.startswith("▸")
    assert said.startswith("still running ?? right")
    assert plan.startswith("plan  ✓ 1/3  ▸ Write it ")
    assert best == "best  8x over torch.compile  ▁▃█"
    assert used == "used  184k tokens in, 3600 out, cost unknown"
    assert "a line that scrolls" in lines
    assert "verdict: win, 8x over torch.compile" in lines
    assert "taken over" not in screen.title()

    screen.type("typed", "Enter", "Enter")
    (screen.folder / "go").touch()
    lines = screen.when(lambda lines: "the end" in lines)
    assert not any("typed" in line for line in lines)
    assert not any(line.startswith(("╭", "│", "╰")) for line in lines)
    assert "verdict: win, 8x over torch.compile" in lines
    assert screen.title().endswith(" 1")  # the cursor is shown again


@pytest.mark.skipif(shutil.which("tmux") is None, reason="tmux keeps the screen that is looked at")
def test_the_question_of_ctrl_c_stands_until_it_is_answered(open_screen: Callable[[int], Screen]) -> None:
    screen = open_screen(80)
    screen.when(lambda lines: any("still running" in line for line in lines))
    screen.type("C-c")
    for times, answer in ((1, "x"), (2, "c")):
        screen.when(partial(is_asked, times=times))
        for _ in range(REFRESHES):
            time.sleep(0.25)
            assert asked(screen.lines()) == times
        screen.type(answer, "Enter")
    lines = screen.when(lambda lines: any(line.startswith("╰") for line in lines))
    assert asked(lines) == 2


@pytest.mark.parametrize("how", ["piped", "NO_COLOR"])
def test_without_a_terminal_there_are_plain_lines(tmp_path: Path, how: str) -> None:
    program = subprocess.Popen(
        [*DRIVER, str(tmp_path)], cwd=tmp_path, stdout=subprocess.PIPE, text=True,
        env=driver_environment(**({"NO_COLOR": "1"} if how == "NO_COLOR" else {})),
    )  # fmt: skip
    (tmp_path / "go").touch()
    deadline = time.monotonic() + 60
    while not (tmp_path / "ended").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    (tmp_path / "go").unlink()
    printed, _ = program.communicate(timeout=60)
    assert program.returncode == 0
    assert all(char.isprintable() or char == "\n" for char in printed)
    lines = printed.splitlines()
    assert lines[1] == "a line that scrolls"
    assert lines[-1] == "the end"
    assert "verdict: win, 8x over torch.compile" in lines
    assert not any("│" in line for line in lines)
