"""The judge's wire: frames with a fixed binary header, a nonce and a length that is checked before anything is read.

A payload is JSON, read with plain `json`: nothing a worker sends is ever unpickled. File descriptors travel beside a
frame's header. Whatever is malformed, late or missing raises; the reader decides whose failure that is.
"""

import array
import contextlib
import hmac
import json
import os
import socket
import struct
import time
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

NONCE_BYTES = 16
HEADER = struct.Struct(f"!4sHHI{NONCE_BYTES}sQ")
MAGIC = b"CAJ1"
MAX_PAYLOAD = 64 << 20
"""From a trusted side: init inputs travel in a frame."""
MAX_ANSWER = 1 << 20
"""From the candidate worker."""
MAX_FDS = 8
SEND_LIMIT_S = 60.0
"""A peer that reads nothing for so long is gone."""


class Kind(IntEnum):
    """What a frame says."""

    SETUP = 1
    LOAD = 2
    PREPARE = 3
    GO = 4
    LAND = 5
    AUDIT = 6
    STATE = 7
    DRAW = 8
    EXPECT = 9
    COMPARE = 10
    HELD = 11
    SCREEN = 12
    MEMORY = 13
    WARM = 14
    ANALYZE = 15
    FILL = 16
    PEEK = 17
    APPRAISE = 18
    RECORD = 19
    OPEN = 20
    COMPILE = 21
    LEAVE = 22
    STEP = 23
    PROBE = 24
    ANSWER = 100
    FAULT = 101


class ProtocolFault(Exception):
    """A frame was malformed."""


class PeerLost(Exception):
    """The other side closed its end before it answered."""


class PeerLate(Exception):
    """The other side did not answer within its limit."""


@dataclass(frozen=True)
class Frame:
    """One message."""

    kind: Kind
    body: dict[str, Any]
    fds: tuple[int, ...] = ()


class Channel:
    """One end of a stream socket that carries frames."""

    def __init__(self, sock: socket.socket, nonce: bytes, *, max_payload: int = MAX_PAYLOAD) -> None:
        self.sock = sock
        self._nonce = nonce
        self._max_payload = max_payload
        self._sent = 0
        self._received = 0

    def send(self, kind: Kind, body: dict[str, Any] | None = None, fds: tuple[int, ...] = ()) -> None:
        """Send a frame.

        Raises:
            PeerLost: nobody reads any more.
        """
        payload = json.dumps(body or {}).encode()
        header = HEADER.pack(MAGIC, int(kind), len(fds), self._sent, self._nonce, len(payload))
        self._sent = (self._sent + 1) & 0xFFFFFFFF
        self.sock.settimeout(SEND_LIMIT_S)
        try:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            sent = self.sock.sendmsg([header], rights)
            self.sock.sendall(header[sent:] + payload)
        except OSError as error:
            raise PeerLost(str(error)) from error

    def receive(self, timeout_s: float | None = None) -> Frame:
        """Wait for the next frame.

        Raises:
            PeerLost, PeerLate, ProtocolFault: there is no frame, none in time, or none that can be believed.
        """
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        header, fds = self._read_header(deadline)
        try:
            return self._read_frame(header, fds, deadline)
        except BaseException:
            for fd in fds:
                os.close(fd)
            raise

    def ask(self, kind: Kind, body: dict[str, Any] | None = None, *, timeout_s: float | None = None) -> Frame:
        """Send a frame and wait for what comes back."""
        self.send(kind, body)
        return self.receive(timeout_s)

    def close(self) -> None:
        """Close this end."""
        with contextlib.suppress(OSError):
            self.sock.close()

    def _read_frame(self, header: bytes, fds: tuple[int, ...], deadline: float | None) -> Frame:
        magic, kind, fd_count, sequence, nonce, length = HEADER.unpack(header)
        if magic != MAGIC or not hmac.compare_digest(nonce, self._nonce):
            raise ProtocolFault("a message without the judge's nonce arrived on the result channel")
        if sequence != self._received or fd_count != len(fds):
            raise ProtocolFault("a message out of its order arrived on the result channel")
        if length > self._max_payload:
            raise ProtocolFault(f"a message of {length} bytes arrived on the result channel")
        self._received = (self._received + 1) & 0xFFFFFFFF
        payload = self._read_exactly(length, deadline)
        try:
            named = Kind(kind)
            body = json.loads(payload)
        except (ValueError, RecursionError) as error:
            raise ProtocolFault(f"a message that cannot be read arrived on the result channel: {error}") from error
        if not isinstance(body, dict):
            raise ProtocolFault("a message that is no object arrived on the result channel")
        return Frame(named, body, fds)

    def _read_header(self, deadline: float | None) -> tuple[bytes, tuple[int, ...]]:
        data = b""
        fds: list[int] = []
        while len(data) < HEADER.size:
            self._arm(deadline)
            try:
                piece, got, _, _ = socket.recv_fds(self.sock, HEADER.size - len(data), MAX_FDS)
            except TimeoutError as error:
                raise PeerLate from error
            except OSError as error:
                raise PeerLost(str(error)) from error
            fds.extend(got)
            if not piece:
                raise PeerLost("the channel was closed")
            data += piece
        return data, tuple(fds)

    def _read_exactly(self, length: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < length:
            self._arm(deadline)
            try:
                piece = self.sock.recv(min(length - len(data), 1 << 20))
            except TimeoutError as error:
                raise PeerLate from error
            except OSError as error:
                raise PeerLost(str(error)) from error
            if not piece:
                raise PeerLost("the channel was closed inside a message")
            data += piece
        return bytes(data)

    def _arm(self, deadline: float | None) -> None:
        if deadline is None:
            self.sock.settimeout(None)
            return
        left = deadline - time.monotonic()
        if left <= 0:
            raise PeerLate
        self.sock.settimeout(left)


def pair(nonce: bytes, *, max_answer: int = MAX_PAYLOAD) -> tuple[Channel, Channel]:
    """Make both ends of a channel; the first end takes answers of at most `max_answer` bytes."""
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(one, nonce, max_payload=max_answer), Channel(other, nonce)
