"""The process that keeps a device busy: what happens where it does not, and how busy a core is seen to be."""

from pathlib import Path

import pytest
from bench.load import Load, SeenCore

from cuda_agent_judge.process_tree import is_running

READINGS = "1.0 1e12 2e9\n1.5 2e12 3e9\n2.0 4e12 4e9\n9.0 5e12 9e9\n"


def load(script: str) -> Load:
    return Load("cpu", "3", ["sh", "-c", script])


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("exit 1", "the load on 3 did not get under way"),
        ("echo 3; exit 1", "the load on 3 did not get under way"),
        (f"echo 4; printf '{READINGS}'; read end", "the load was to be on 3 and is on 4"),
    ],
)
def test_a_load_that_is_none_is_said_in_one_sentence(script: str, words: str) -> None:
    with pytest.raises(SystemExit, match=words), load(script):
        pass


def test_what_was_done_between_two_moments_is_a_rate() -> None:
    with load(f"echo 3; printf '{READINGS}'; echo 9.5 5e12 9e9; read end") as found:
        while len(found.readings) < 5:
            pass
        assert found.rates(0.9, 2.1) == {"tflop_s": 3.0, "gb_s": 2.0}
        with pytest.raises(SystemExit, match="was not under way while a verdict beside it was taken"):
            found.rates(3.0, 8.0)
    assert not is_running(found.pid)


def test_a_load_that_ended_meanwhile_is_no_load() -> None:
    with load(f"echo 3; printf '{READINGS}'") as found:
        while not found.ended:
            pass
        with pytest.raises(SystemExit, match="was not under way"):
            found.rates(0.9, 2.1)


def test_a_core_is_busy_while_it_does_not_idle(tmp_path: Path) -> None:
    stat = tmp_path / "stat"

    def write(core: str) -> None:
        stat.write_text(f"cpu  9 9 9 9 9 9 9 9 9 9\ncpu0 5 0 0 0 0 0 0 0 0 0\n{core}\n")

    write("cpu1 100 0 0 100 0 0 0 0 50 0")
    seen = SeenCore("1", stat)
    assert seen.percent() is None
    write("cpu1 160 0 0 110 10 10 5 5 80 0")
    assert seen.percent() == pytest.approx(80.0)
    write("cpu1 160 0 0 210 10 10 5 5 80 0")
    assert seen.percent() == pytest.approx(0.0)
