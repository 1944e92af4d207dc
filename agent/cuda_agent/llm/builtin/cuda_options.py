"""How a variant of a kernel for cuda may differ from another."""

from dataclasses import dataclass


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
    tiled: bool = True
    """Transposed inputs go through shared memory."""
    algorithms: int = 1
    """How many of the library's suggestions for a product are timed at its first call."""
