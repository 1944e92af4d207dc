"""What a model, a compiler or a file name can make the program print."""

import pytest

from cuda_agent.cli import main
from cuda_agent.terminal import plain

SEQUENCES = ["\x1b[2J", "\x1b]0;title\x07", "\x1b]52;c;eA==\x1b\\", "\x9b2J", "\u202e", "\u2066", "\r", "\x00", "\x7f"]


@pytest.mark.parametrize("sequence", SEQUENCES)
def test_nothing_that_a_terminal_obeys_is_left(sequence: str) -> None:
    shown = plain(f"a{sequence}b\n\tc")
    assert shown.startswith("a")
    assert shown.endswith("b\n\tc")
    assert all(char.isprintable() or char in "\n\t" for char in shown)


def test_what_people_write_stays() -> None:
    assert plain("ü λ 漢字 😀 漢") == "ü λ 漢字 😀 漢"


@pytest.mark.parametrize("sequence", SEQUENCES[:-3])
def test_an_error_about_an_odd_name_is_plain(sequence: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        main(["optimize", f"/nowhere/{sequence}.py"])
    assert exit_.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("cuda-agent: ")
    assert said.rstrip("\n").isprintable()
