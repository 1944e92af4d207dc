"""The variants of a design, in the order of their promise: what may be faster differs from machine to machine."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.absorb import with_epilogues
from cuda_agent.llm.builtin.blocked import AnyKernel, with_blocks
from cuda_agent.llm.builtin.cpu_options import CpuOptions
from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.dtypes import ITEM_BYTES
from cuda_agent.llm.builtin.keep import with_kept
from cuda_agent.llm.builtin.kernels import Kernel, plan_kernels
from cuda_agent.llm.builtin.nest import Nest
from cuda_agent.llm.builtin.row_cuda import with_workspace
from cuda_agent.llm.builtin.rows import Rows
from cuda_agent.llm.builtin.stage import Plan, Product

STREAM_FROM_BYTES = 4 << 20
"""Outputs from this size on are written past the caches first."""
STAGED_BYTES = 4096
"""How much of a streamed output is computed before it is written: more would not stay in the first-level cache."""
ROWS_STREAM_FROM_BYTES = 64 << 20
"""The same for row kernels, whose outputs of a few megabytes are faster through the caches."""
CONSERVATIVE = "plain"


@dataclass(frozen=True)
class Variant:
    """One way to write the kernels."""

    name: str
    options: CpuOptions | CudaOptions
    idea: str
    """What it changes and why, as a sentence."""
    kernels: tuple[AnyKernel, ...] | None = None
    """Its own kernels where they are not the design's."""


def target_kernels(plan: Plan, target: str) -> tuple[Kernel, ...]:
    """Return the kernels of a plan, with what they need of memory besides on a target."""
    kernels = plan_kernels(plan)
    if target != "cuda":
        return kernels
    return tuple(with_workspace(one) if isinstance(one, Rows) else one for one in kernels)


def cpu_variants(plan: Plan, kernels: Sequence[Kernel], cores: int) -> list[Variant]:
    """Return the variants for the cpu, the best expected first, the conservative one last."""
    plain = CpuOptions(tiled=False, simd=False, fast_math=False, keep=False, cores=cores)
    idea = "libm, plain loops and no tiles: slower, and nothing that could be wrong"
    if any(isinstance(kernel, Product) for kernel in kernels):
        found = _cpu_product_variants(plan, kernels, CpuOptions(cores=cores))
    else:
        found = _cpu_loop_variants(kernels, cores)
    return [*found, Variant(CONSERVATIVE, plain, idea)]


def _cpu_product_variants(plan: Plan, kernels: Sequence[Kernel], first: CpuOptions) -> list[Variant]:
    cached = Variant("cached", first, "the whole product first, then what comes behind it in one pass in place")
    blocked = with_blocks(kernels, frozenset(plan.results.values()))
    if blocked is None:
        return [cached]
    tall = replace(first, product_bytes=first.product_bytes * 4)
    idea = "a block of rows at a time: what comes behind runs while the block is in the second-level cache"
    return [
        Variant("blocked", first, idea, blocked),
        Variant("tall-blocks", tall, "blocks of four times as many rows: the right matrix is read less often", blocked),
        cached,
    ]


def _cpu_loop_variants(kernels: Sequence[Kernel], cores: int) -> list[Variant]:
    outputs = [buffer for kernel in kernels for buffer in kernel.outputs]
    written = max(buffer.spec.bytes for buffer in outputs)
    chunk = STAGED_BYTES // max(ITEM_BYTES[buffer.spec.dtype] for buffer in outputs)
    stream = written >= STREAM_FROM_BYTES
    streamed = CpuOptions(stream=True, chunk=chunk, cores=cores)
    variants = [
        Variant("streamed", streamed, "write the output past the caches, so that it is not read first"),
        Variant(
            "cached", CpuOptions(cores=cores), "write the output through the caches, where it may be read from soon"
        ),
    ]
    rows = [kernel for kernel in kernels if isinstance(kernel, Rows)]
    if not stream or (rows and written < ROWS_STREAM_FROM_BYTES):
        variants.reverse()
    if rows and not stream:
        variants = variants[:1]
    first = variants[0].options
    assert isinstance(first, CpuOptions)
    variants += _cpu_row_variants(first, rows) if rows else _cpu_nest_variants(kernels, first)
    return variants


def _cpu_nest_variants(kernels: Sequence[Kernel], first: CpuOptions) -> list[Variant]:
    if any(isinstance(kernel, Nest) and kernel.tile_axis is not None for kernel in kernels):
        wide = replace(first, tile_rows=32, tile_columns=256)
        square = replace(first, tile_rows=64, tile_columns=64)
        return [
            Variant("wide-tiles", wide, "larger tiles: longer runs of stores, more of the transposed input at once"),
            Variant("square-tiles", square, "square tiles: fewer pages of the transposed input at once"),
        ]
    smaller = replace(first, chunk=first.chunk // 4)
    return [Variant("small-chunks", smaller, "smaller pieces a task, which stay in the first-level cache")]


def _cpu_row_variants(first: CpuOptions, rows: list[Rows]) -> list[Variant]:
    long, wide = replace(first, block=4096), replace(first, lanes=256)
    again = Variant("recomputed", replace(first, keep=False), "compute anew in each pass instead of keeping results")
    return [
        *([again] if any(with_kept(one).kept for one in rows) else []),
        Variant("long-blocks", long, "longer blocks of a sum: fewer partial results to put together"),
        Variant("wide-lanes", wide, "more neighbouring rows side by side: longer runs of memory"),
    ]


def cuda_variants(plan: Plan, kernels: Sequence[Kernel]) -> list[Variant]:
    """Return the variants for cuda, the best expected first, the conservative one last."""
    found = _cuda_product_variants(plan, kernels) if any(isinstance(one, Product) for one in kernels) else _CUDA_LOOPS
    plain = CudaOptions(vector=False, tiled=False)
    idea = "one element a thread at a time: slower, and nothing that could be wrong"
    return [*found, Variant(CONSERVATIVE, plain, idea)]


def _cuda_product_variants(plan: Plan, kernels: Sequence[Kernel]) -> list[Variant]:
    behind = Variant("in-place", CudaOptions(), "the library's product, then what comes behind it in one pass in place")
    timed = replace(
        behind, name="timed", options=CudaOptions(algorithms=8), idea="time what the library suggests, keep the fastest"
    )
    inside = target_kernels(with_epilogues(plan), "cuda")
    if inside == tuple(kernels):
        return [behind, timed]
    idea = "bias and activation in the library's own epilogue: the result is written once"
    return [
        Variant("epilogue", CudaOptions(), idea, inside),
        replace(timed, kernels=inside),
        behind,
    ]


_CUDA_LOOPS = [
    Variant("vector", CudaOptions(), "sixteen bytes a load and store where the layout allows it"),
    Variant(
        "streaming",
        CudaOptions(streaming=True),
        "mark the output as used once, so that it leaves the L2 cache to the inputs",
    ),
    Variant("wide-blocks", CudaOptions(block=512), "blocks of 512 threads"),
    Variant("more-per-thread", CudaOptions(items=4), "four vectors a thread, loads issued before they are used"),
]
