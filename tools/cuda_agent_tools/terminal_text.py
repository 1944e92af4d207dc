"""Bytes of a command to the text a terminal would show in the end: no escapes, no overwritten progress bars."""

import re

ESCAPE = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # CSI: colours, cursor
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # OSC: window titles, links
    r"|\x1b[PX^_][^\x1b]*(?:\x1b\\)?"  # DCS and its like
    r"|\x1b[ -/]*[0-~]?"  # two- and three-character ones, and one cut off
    r"|\x9b[0-?]*[ -/]*[@-~]"
)
ERASE_LINE = re.compile(r"\x1b\[[02]?K")
STEP = re.compile(r"\r|\x08|\x1b\[[02]?K|[^\r\x08\x1b]+")
CONTROLS = dict.fromkeys([*(n for n in range(32) if chr(n) not in "\n\t"), *range(0x7F, 0xA0)])


def terminal_text(data: bytes) -> str:
    """Return clean text; bytes that are not UTF-8 become U+FFFD."""
    text = data.decode("utf-8", errors="replace").replace("\r\n", "\n")
    text = ESCAPE.sub(lambda found: found[0] if ERASE_LINE.fullmatch(found[0]) else "", text)
    if "\r" in text or "\x08" in text or "\x1b" in text:
        text = "\n".join(map(_last_state, text.split("\n")))
    return text.translate(CONTROLS)


def halves_text(data: bytes, dropped: int) -> str:
    """Return clean text of an output that may lack `dropped` bytes in its middle, saying so there."""
    if not dropped:
        return terminal_text(data)
    middle = len(data) // 2
    head, tail = _whole_end(data[:middle]), _whole_start(data[middle:])
    return f"{terminal_text(head)}\n[... {dropped:,} bytes were not kept ...]\n{terminal_text(tail)}"


def _last_state(line: str) -> str:
    """Play carriage returns, backspaces and erasures."""
    if not ("\r" in line or "\x08" in line or "\x1b" in line):
        return line
    cells: list[str] = []
    at = 0
    for step in STEP.findall(line):
        if step == "\r":
            at = 0
        elif step == "\x08":
            at = max(0, at - 1)
        elif step[0] == "\x1b":
            # Whoever erases the whole line is about to write it anew, wherever the cursor stood.
            at = 0 if "2" in step else at
            del cells[at:]
        else:
            cells[at : at + len(step)] = step
            at += len(step)
    return "".join(cells).rstrip(" ")


def _whole_end(data: bytes) -> bytes:
    """Cut off a character whose last bytes are missing."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back else data
        if byte < 0x80:
            break
    return data


def _whole_start(data: bytes) -> bytes:
    """Cut off the last bytes of a character whose first are missing."""
    start = 0
    while start < min(3, len(data)) and 0x80 <= data[start] < 0xC0:
        start += 1
    return data[start:]
