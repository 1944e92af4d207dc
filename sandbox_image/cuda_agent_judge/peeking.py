"""Reads a few places of an output straight from the candidate worker's memory while that worker stands still.

What it copies out afterwards must hold the same values there: a submission that answers first and computes later is
found even when it has rewritten everything inside its own process.
"""

import ctypes
import os
import platform
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from cuda_agent_judge.buffers import Leaf

PLACES = 48
"""Of each output."""
_SETRESUID = {"x86_64": (117, 119), "aarch64": (147, 149)}
"""System call numbers of setresuid and setresgid."""
_libc = ctypes.CDLL(None, use_errno=True)
_libc.process_vm_readv.restype = ctypes.c_ssize_t


class _Piece(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("size", ctypes.c_size_t))


@dataclass(frozen=True)
class Peeked:
    """Values at some places of one output."""

    places: tuple[int, ...]
    """Row-major indices."""
    values: tuple[bytes, ...]


def where(tensors: Sequence[Any]) -> list[list[Any]]:
    """Addresses and strides of plain tensors, for the other side to read."""
    return [[tensor.data_ptr(), list(tensor.stride())] for tensor in tensors]


def peek(pid: int, told: Any, leaves: Sequence[Leaf], draw: random.Random) -> list[Peeked]:
    """Read random places of each output where the worker says that it lies.

    Raises:
        ValueError: what it says makes no sense.
        OSError: that memory cannot be read.
    """
    if not isinstance(told, list) or len(told) != len(leaves):
        raise ValueError("not one place for each output")
    return [_peek_one(pid, entry, leaf, draw) for entry, leaf in zip(told, leaves, strict=True)]


def read(pid: int, addresses: Sequence[int], size: int) -> list[bytes]:
    """Read `size` bytes at each address of another process.

    Raises:
        OSError: it may not be read, or nothing is mapped there.
    """
    count = len(addresses)
    buffer = ctypes.create_string_buffer(max(count * size, 1))
    mine = (_Piece * 1)(_Piece(ctypes.addressof(buffer), count * size))
    its = (_Piece * count)(*(_Piece(address, size) for address in addresses))
    with _as_owner(pid):
        got = _libc.process_vm_readv(pid, mine, 1, its, count, 0)
        number = ctypes.get_errno()
    if got != count * size:
        raise OSError(number if got < 0 else 0, "the candidate worker's memory cannot be read")
    return [buffer.raw[i * size : (i + 1) * size] for i in range(count)]


def still_there(peeked: Sequence[Peeked], leaves: Sequence[Leaf], area: torch.Tensor) -> bool:
    """Whether what was copied out holds what was read."""
    for one, leaf in zip(peeked, leaves, strict=False):
        size = leaf.torch_dtype.itemsize
        for place, value in zip(one.places, one.values, strict=True):
            start = leaf.offset + place * size
            if bytes(area[start : start + size].tolist()) != value:
                return False
    return True


def _peek_one(pid: int, entry: Any, leaf: Leaf, draw: random.Random) -> Peeked:
    address, strides = entry
    if not isinstance(address, int) or len(strides) != len(leaf.shape) or not all(isinstance(s, int) for s in strides):
        raise ValueError("no address and strides")
    if leaf.extent == 0:
        return Peeked((), ())
    size = leaf.torch_dtype.itemsize
    places = tuple(draw.randrange(leaf.extent) for _ in range(PLACES))
    at = [address + size * _offset(place, leaf.shape, strides) for place in places]
    if not all(0 < place < 1 << 63 for place in at):
        raise ValueError("no address")
    return Peeked(places, tuple(read(pid, at, size)))


def _offset(place: int, shape: Sequence[int], strides: Sequence[int]) -> int:
    offset = 0
    for length, stride in zip(reversed(shape), reversed(strides), strict=True):
        place, index = divmod(place, length)
        offset += index * stride
    return offset


@contextmanager
def _as_owner(pid: int) -> Iterator[None]:
    """Take the worker's uid as this thread's real one for the moment: root needs a capability otherwise.

    Only this thread changes: the C library would change all of them. The worker stands still meanwhile.
    """
    owner = os.stat(f"/proc/{pid}")
    numbers = _SETRESUID.get(platform.machine())
    if os.geteuid() != 0 or owner.st_uid == 0 or numbers is None:
        yield
        return
    keep = -1
    _libc.syscall(numbers[1], owner.st_gid, keep, keep)
    _libc.syscall(numbers[0], owner.st_uid, keep, keep)
    try:
        yield
    finally:
        _libc.syscall(numbers[0], 0, keep, keep)
        _libc.syscall(numbers[1], 0, keep, keep)
