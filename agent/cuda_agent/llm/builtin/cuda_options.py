"""How a variant of a kernel for cuda may differ from another."""

from dataclasses import dataclass

PROCESSORS = 132
"""Multiprocessors of the GPU, where the analysis does not say."""


@dataclass(frozen=True)
class CudaOptions:
    """What a variant of a kernel may change."""

    vector: bool = True
    """Sixteen bytes a load and store where layout and alignment allow it."""
    streaming: bool = False
    """Stores marked as used once (evict first)."""
    block: int = 256
    items: int = 1
    """Vectors that a thread computes before it goes on."""
    held: int = 0
    """Rows that are read more than once stay in shared memory, so many blocks on a multiprocessor; 0: they do not."""
    walks: bool = True
    """Reductions that need each other's results share a walk over their row."""
    warp: int = 1024
    """Rows up to this long belong to one warp, where there are enough of them."""
    fast_math: bool = False
    """Exponentials and extremes of float in one instruction."""
    tiled: bool = True
    """Transposed inputs go through shared memory."""
    algorithms: int = 1
    """How many of the library's suggestions for a product are timed at its first call."""
