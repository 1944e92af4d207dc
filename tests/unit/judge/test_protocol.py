"""Frames on the wire: what is malformed, forged, late or missing never becomes an answer."""

import json
import os
import struct
from collections.abc import Iterator

import pytest

from cuda_agent_judge.protocol import HEADER, MAGIC, Channel, Kind, PeerLate, PeerLost, ProtocolFault, pair

NONCE = b"0123456789abcdef"


@pytest.fixture
def ends() -> Iterator[tuple[Channel, Channel]]:
    judge, worker = pair(NONCE, max_answer=1000)
    yield judge, worker
    judge.close()
    worker.close()


def frame(
    *, magic: bytes = MAGIC, kind: int = 100, fds: int = 0, sequence: int = 0, nonce: bytes = NONCE, body: bytes
) -> bytes:
    return HEADER.pack(magic, kind, fds, sequence, nonce, len(body)) + body


def test_a_frame_arrives_as_it_was_sent(ends: tuple[Channel, Channel]) -> None:
    judge, worker = ends
    worker.send(Kind.ANSWER, {"claim_ns": 5})
    worker.send(Kind.FAULT, {"sentence": "é"})
    first, second = judge.receive(5), judge.receive(5)
    assert (first.kind, first.body) == (Kind.ANSWER, {"claim_ns": 5})
    assert (second.kind, second.body) == (Kind.FAULT, {"sentence": "é"})


def test_descriptors_travel_beside_a_frame(ends: tuple[Channel, Channel]) -> None:
    judge, worker = ends
    fd = os.memfd_create("test")
    os.write(fd, b"shared")
    judge.send(Kind.SETUP, {}, (fd,))
    (received,) = worker.receive(5).fds
    assert os.pread(received, 6, 0) == b"shared"
    os.close(received)
    os.close(fd)


MALFORMED = {
    "another nonce": frame(nonce=b"f" * 16, body=b"{}"),
    "another magic": frame(magic=b"XXXX", body=b"{}"),
    "out of order": frame(sequence=7, body=b"{}"),
    "an unknown kind": frame(kind=999, body=b"{}"),
    "descriptors that are not there": frame(fds=2, body=b"{}"),
    "no JSON": frame(body=b"\xff\xfe"),
    "JSON that is no object": frame(body=b"[1]"),
    "nested beyond reason": frame(body=b"[" * 900),
    "printed text": b'{"status": "correct", "nonce": "unknown to it"}' * 4,
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_malformed_frame_is_a_protocol_fault(ends: tuple[Channel, Channel], name: str) -> None:
    judge, worker = ends
    worker.sock.sendall(MALFORMED[name])
    with pytest.raises(ProtocolFault):
        judge.receive(5)


def test_a_length_beyond_the_limit_is_refused_before_it_is_read(ends: tuple[Channel, Channel]) -> None:
    judge, worker = ends
    worker.sock.sendall(struct.pack("!4sHHI16sQ", MAGIC, 100, 0, 0, NONCE, 1 << 62))
    with pytest.raises(ProtocolFault, match="bytes"):
        judge.receive(5)


def test_a_closed_channel_is_a_lost_peer_even_inside_a_frame(ends: tuple[Channel, Channel]) -> None:
    judge, worker = ends
    body = json.dumps({"a": 1}).encode()
    worker.sock.sendall(frame(body=body)[:-2])
    worker.close()
    with pytest.raises(PeerLost):
        judge.receive(5)


def test_silence_is_a_late_peer_even_inside_a_frame(ends: tuple[Channel, Channel]) -> None:
    judge, worker = ends
    worker.sock.sendall(frame(body=b"{}")[:5])
    with pytest.raises(PeerLate):
        judge.receive(0.05)


def test_sending_to_nobody_is_a_lost_peer(ends: tuple[Channel, Channel]) -> None:
    judge, worker = ends
    worker.close()
    with pytest.raises(PeerLost):
        judge.send(Kind.GO, {"text": "x" * 10_000_000})
