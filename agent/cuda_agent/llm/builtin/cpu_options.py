"""How a variant of a kernel for the cpu may differ from another."""

from dataclasses import dataclass

PARALLEL_FROM = 16384
"""Elements below which waking the threads costs more than they save."""


@dataclass(frozen=True)
class CpuOptions:
    """What a variant of a kernel may change."""

    stream: bool = False
    """Non-temporal stores: the output's cache lines are not read before they are written."""
    chunk: int = 4096
    """Elements that one task computes in one go."""
    tile_rows: int = 16
    tile_columns: int = 128
    tiled: bool = True
    """Transposed inputs go through a tile in the first-level cache."""
    simd: bool = True
    fast_math: bool = True
    """Polynomials that vectorise instead of libm."""
    block: int = 1024
    """Columns of a row that are summed in one go."""
    lanes: int = 64
    """Partial sums side by side: of one row, or one each of neighbouring rows."""
    split: bool = True
    """Few long rows are shared between the threads."""
    keep: bool = True
    """Dear expressions that several passes over a row need are computed once and kept."""
    product_bytes: int = 1 << 19
    """How much of a product a thread makes before it goes on with what comes behind."""
    cores: int = 2
