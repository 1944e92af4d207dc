import pytest

from cuda_agent_tools.terminal_text import halves_text, terminal_text


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"plain\n\ttab", "plain\n\ttab"),
        (b"\x1b[1;31merror\x1b[0m: \x1b[Kx", "error: x"),
        (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "alink"),
        (b"\x1b(B\x1b[?25lhidden\x1b[?25h\x1b=", "hidden"),
        (b"cut off \x1b[", "cut off "),
        (b"10%\r20%\r100%", "100%"),
        (b"long line\rshort", "shortline"),
        (b"long line\r\x1b[Kshort", "short"),
        (b"long line\x1b[2K\rx", "x"),
        (b"10%\x1b[2K\x1b[1G20%", "20%"),
        (b"dos\r\nline\r\n", "dos\nline\n"),
        (b"done   \r", "done"),
        (b"ab\x08c\x08\x08\x08\x08d", "dc"),
        (b"a\x00b\x07c\x7fd\xc2\x85", "abcd"),
        ("é\u4e2d\U0001f600".encode(), "é\u4e2d\U0001f600"),
        (b"\xff\xfeok\xe9", "\ufffd\ufffdok\ufffd"),
        (b"", ""),
    ],
)
def test_text_is_what_a_terminal_would_show(data: bytes, text: str) -> None:
    assert terminal_text(data) == text


@pytest.mark.parametrize("limit", range(2, 16))
def test_a_character_cut_in_two_by_the_gap_is_left_out(limit: int) -> None:
    data = "é\u4e2d\U0001f600x".encode() * 5
    kept = data[: limit // 2] + data[len(data) - (limit - limit // 2) :]
    text = halves_text(kept, len(data) - limit)
    assert "\ufffd" not in text
    assert f"{len(data) - limit} bytes were not kept" in text


def test_bytes_that_were_wrong_before_the_gap_stay_visible() -> None:
    assert halves_text(b"a\xffb" + b"cd\xff", 10).count("\ufffd") == 2


def test_nothing_dropped_is_not_said() -> None:
    assert halves_text(b"ab", 0) == "ab"
