"""How many warps of a kernel fit on a multiprocessor at once, and what keeps more from fitting.

The rules are those of NVIDIA's occupancy calculator, with all of a multiprocessor's shared memory at hand.
"""

from dataclasses import dataclass
from typing import Literal

Limiter = Literal["warps", "blocks", "registers", "shared memory"]

_REGISTERS = 65536
"""Of a multiprocessor, and at most of a block: the same from sm_70 to sm_121."""
_PARTITIONS = 4
_WARP = 32
_REGISTER_UNIT = 256
"""Registers are handed to a warp in units of so many."""
_MAX_REGISTERS = 255


@dataclass(frozen=True)
class Limits:
    """What one multiprocessor holds."""

    warps: int
    blocks: int
    shared_bytes: int
    shared_unit: int = 128
    reserved_bytes: int = 1024
    """Shared memory that the driver takes of each block."""


_LIMITS: dict[str, Limits] = {
    "70": Limits(64, 32, 96 << 10, 256, 0),
    "72": Limits(64, 32, 96 << 10, 256, 0),
    "75": Limits(32, 16, 64 << 10, 256, 0),
    "80": Limits(64, 32, 164 << 10),
    "86": Limits(48, 16, 100 << 10),
    "87": Limits(48, 16, 164 << 10),
    "89": Limits(48, 24, 100 << 10),
    "90": Limits(64, 32, 228 << 10),
    "100": Limits(64, 32, 228 << 10),
    "103": Limits(64, 32, 228 << 10),
    "110": Limits(48, 24, 228 << 10),
    "120": Limits(48, 24, 100 << 10),
    "121": Limits(48, 24, 100 << 10),
}


@dataclass(frozen=True)
class Occupancy:
    """Of one launch."""

    blocks: int
    """On a multiprocessor at once; 0: it does not fit at all."""
    share: float
    """Warps at once, as a share of what the multiprocessor can hold."""
    limiter: Limiter
    """What allows no more; "warps" is the multiprocessor's own number of them."""


def occupancy(sm: str, *, threads: int, registers: int, shared_bytes: int) -> Occupancy | None:
    """The theoretical occupancy of blocks of `threads`, with `shared_bytes` static and dynamic together.

    None for an architecture that is not known.
    """
    limits = _LIMITS.get(sm.rstrip("af"))
    if limits is None or threads <= 0:
        return None
    warps = -(-threads // _WARP)
    ceilings: dict[Limiter, int] = {
        "warps": limits.warps // warps,
        "blocks": limits.blocks,
        "registers": _by_registers(warps, registers),
        "shared memory": _by_shared(limits, shared_bytes),
    }
    limiter = min(ceilings, key=lambda name: ceilings[name])
    blocks = ceilings[limiter]
    return Occupancy(blocks, blocks * warps / limits.warps, limiter)


def _by_registers(warps: int, registers: int) -> int:
    if registers <= 0:
        return _REGISTERS
    per_warp = _up(registers * _WARP, _REGISTER_UNIT)
    if registers > _MAX_REGISTERS or per_warp * _up(warps, _PARTITIONS) > _REGISTERS:
        return 0
    return _REGISTERS // _PARTITIONS // per_warp * _PARTITIONS // warps


def _by_shared(limits: Limits, shared_bytes: int) -> int:
    needed = _up(shared_bytes + limits.reserved_bytes, limits.shared_unit)
    return limits.shared_bytes // needed if needed else limits.blocks


def _up(number: int, unit: int) -> int:
    return -(-number // unit) * unit
