"""A text file's bytes as text and back again without a change: byte order mark, encoding, line ends."""

import codecs
from dataclasses import dataclass

MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


@dataclass(frozen=True)
class TextFile:
    """Decoded text and what is needed to encode it as it was."""

    text: str
    encoding: str = "utf-8"
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> "TextFile":
        """Decode by the byte order mark, else as UTF-8, else as Latin-1, which takes any bytes."""
        for mark, encoding in MARKS:
            if data.startswith(mark):
                try:
                    return cls(data[len(mark) :].decode(encoding), encoding, mark)
                except UnicodeDecodeError:
                    break
        try:
            return cls(data.decode("utf-8"))
        except UnicodeDecodeError:
            return cls(data.decode("latin-1"), "latin-1")

    def encode(self, text: str) -> bytes:
        """Encode new text as the file is.

        Raises:
            UnicodeEncodeError: the file's encoding has no such character.
        """
        return self.mark + text.encode(self.encoding)


def main_line_end(text: str) -> str:
    """Return the line end that most lines have."""
    crlf = text.count("\r\n")
    return "\r\n" if crlf * 2 > text.count("\n") else "\n"
