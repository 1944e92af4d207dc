"""One client of the served judge: what it may ask, what it is told, and for how long anybody waits for it.

A request is four bytes of length (big-endian) and a JSON object of exactly `command` and `arguments`. The answer is a
row of frames, each a tag, four bytes of length and as many bytes: both output streams as they come, and in the end the
exit code in decimal. The host, which shows a token (asking.py), may ask for a verdict, and gets the report in a frame
of its own. What the client sends beyond its request ends it. Standard library only.
"""

import asyncio
import contextlib
import json
import socket
import struct
from dataclasses import dataclass

from cuda_agent_judge.frames import EXIT, FRAME, LENGTH, STDERR

FLAGS: dict[str, tuple[str, ...]] = {
    "analyze": ("--json",),
    "compile": ("--json",),
    "verify": ("--json",),
    "profile": ("--json", "--baseline"),
}
"""What may be asked."""
MAX_REQUEST = 4096
REQUEST_LIMIT_S = 5.0
"""How long a client may take to say what it wants."""
READING_LIMIT_S = 30.0
"""A client that takes nothing for so long is gone."""


class Refusal(Exception):
    """A request that is not carried out; the text is for the client."""


@dataclass(frozen=True)
class Asked:
    """A request that was found sound."""

    command: str
    arguments: tuple[str, ...]
    nonce: str = ""
    token: str = ""
    """Only of the host: what shows that it asks."""


def parse(body: bytes) -> Asked:
    """Read a request.

    Raises:
        Refusal: it is none, or asks for what is not to be had.
    """
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError):
        raise Refusal("the request is not JSON") from None
    if isinstance(raw, dict) and raw.keys() == {"command", "arguments", "nonce", "token"}:
        return _from_host(raw)
    if not isinstance(raw, dict) or raw.keys() != {"command", "arguments"}:
        raise Refusal("a request is an object of command and arguments")
    command, arguments = raw["command"], raw["arguments"]
    if not isinstance(command, str) or command not in FLAGS:
        raise Refusal(f"the command must be one of {', '.join(FLAGS)}")
    known = FLAGS[command]
    if not isinstance(arguments, list) or any(word not in known for word in arguments if isinstance(word, str)):
        raise Refusal(f"{command} takes no arguments but {' and '.join(known)}")
    if not all(isinstance(word, str) for word in arguments) or len(arguments) > len(known):
        raise Refusal(f"{command} takes no arguments but {' and '.join(known)}, each once")
    return Asked(command, tuple(arguments))


def _from_host(raw: dict[str, object]) -> Asked:
    command, nonce, token = raw["command"], raw["nonce"], raw["token"]
    words = all(isinstance(word, str) and word.isascii() and word for word in (command, nonce, token))
    if not words or raw["arguments"] != []:
        raise Refusal("a request with a token is a command, no arguments, a nonce and the token, in words")
    return Asked(str(command), (), str(nonce), str(token))


class Client:
    """Who has connected."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        writer.transport.set_write_buffer_limits(0)  # `drain` waits until all is out

    @property
    def uid(self) -> int:
        """Who the kernel says it is."""
        one: socket.socket = self._writer.get_extra_info("socket")
        size = struct.calcsize("3i")
        return int(struct.unpack("3i", one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size))[1])

    async def request(self) -> Asked:
        """Hear what it wants.

        Raises:
            Refusal: it says nothing, or what cannot be granted.
        """
        try:
            async with asyncio.timeout(REQUEST_LIMIT_S):
                (length,) = LENGTH.unpack(await self._reader.readexactly(LENGTH.size))
                if length > MAX_REQUEST:
                    raise Refusal(f"a request has at most {MAX_REQUEST} bytes")
                return parse(await self._reader.readexactly(length))
        except TimeoutError:
            raise Refusal(f"there was no request within {REQUEST_LIMIT_S:g} s") from None
        except asyncio.IncompleteReadError:
            raise Refusal("the request ends too early") from None

    async def gone(self) -> None:
        """Return when it has left, or has sent what nobody asked for."""
        with contextlib.suppress(OSError):
            await self._reader.read(1)

    async def send(self, tag: int, data: bytes) -> None:
        """Send a frame.

        Raises:
            OSError, TimeoutError: it takes nothing any more.
        """
        async with asyncio.timeout(READING_LIMIT_S):
            self._writer.write(FRAME.pack(tag, len(data)) + data)
            await self._writer.drain()

    async def refuse(self, why: str, code: int) -> None:
        """Say why there is nothing."""
        await self.send(STDERR, f"[FAIL] {why}\n".encode())
        await self.send(EXIT, b"%d" % code)

    def close(self) -> None:
        """Let it go."""
        self._writer.transport.abort()
