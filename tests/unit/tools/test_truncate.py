import pytest

from cuda_agent_tools.truncate import ERROR, truncate

LINES = [f"line {number}" for number in range(2000)]


def test_short_text_is_left_alone() -> None:
    shown = truncate("a\nb", 10)
    assert (shown.text, shown.cut) == ("a\nb", 0)


def test_head_and_tail_are_whole_lines_and_the_cut_is_counted() -> None:
    text = "\n".join(LINES)
    shown = truncate(text, 1000)
    assert len(shown.text) < 1100
    kept = [line for line in shown.text.split("\n") if not line.startswith("[")]
    assert kept[0] == "line 0"
    assert kept[-1] == "line 1999"
    assert set(kept) <= set(LINES)
    assert f"[... {shown.cut:,} characters" in shown.text


def test_the_first_error_of_the_cut_part_is_shown_with_what_follows() -> None:
    lines = [*LINES[:900], "k.cu(3): error: one", "  x = y;", "      ^", *LINES[900:1100], "error: two", *LINES[1100:]]
    shown = truncate("\n".join(lines), 1000).text
    assert "k.cu(3): error: one\n  x = y;\n      ^\n" in shown
    assert "error: two" not in shown


def test_an_error_that_is_shown_anyway_is_not_repeated() -> None:
    shown = truncate("\n".join(["error: one", *LINES]), 1000).text
    assert shown.count("error: one") == 1
    assert truncate("\n".join([*LINES, "error: last"]), 1000).text.count("error: last") == 1


def test_one_endless_line_is_cut_too() -> None:
    shown = truncate("x" * 400_000 + " error: here " + "y" * 400_000, 1000).text
    assert len(shown) < 1300
    assert "error: here" in shown
    assert shown.startswith("x")
    assert shown.endswith("y")


@pytest.mark.parametrize(
    "line",
    [
        "a.cu(3): error: expected a ;",
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "ld: undefined reference to `f'",
        "FAILED: kernel.o",
        "[FAIL] output 0",
        "Traceback (most recent call last):",
        "fatal error: x.h: No such file",
        "ValueError: x",
    ],
)
def test_error_lines_are_known(line: str) -> None:
    assert ERROR.search(line)


@pytest.mark.parametrize("line", ["-Werror", "0 errors", "terror", "failed_count"])
def test_other_lines_are_not(line: str) -> None:
    assert not ERROR.search(line)
