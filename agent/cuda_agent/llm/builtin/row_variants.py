"""Which ways to write row kernels for cuda are worth a try, in the order of their promise."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.kernels import Kernel
from cuda_agent.llm.builtin.nest import Nest
from cuda_agent.llm.builtin.row_layout import is_read_again
from cuda_agent.llm.builtin.row_plan import plan_of
from cuda_agent.llm.builtin.rows import Rows


@dataclass(frozen=True)
class Way:
    """A way to write the kernels, and why it may be faster."""

    name: str
    options: CudaOptions
    idea: str


HELD = (
    Way(
        "held",
        CudaOptions(held=4, items=4, streaming=True, fast_math=True),
        "hold each row in shared memory between its walks, four blocks on a multiprocessor: memory is read once",
    ),
    Way(
        "held-by-fewer",
        CudaOptions(held=2, items=4, streaming=True, fast_math=True),
        "hold each row with half as many blocks, each of twice the size: fewer have to wait for each other",
    ),
)
WALKS = Way(
    "walks",
    CudaOptions(items=4, streaming=True, fast_math=True),
    "read a row once for all of its numbers, four vectors in flight a thread",
)
WARPS = Way(
    "warps",
    CudaOptions(items=4, streaming=True, fast_math=True, warp=4096),
    "a warp for each row: no thread waits for those of another warp",
)
WIDE = Way("wide-blocks", CudaOptions(items=4, block=512, streaming=True, fast_math=True), "blocks of 512 threads")
FEW = Way(
    "less-in-flight",
    CudaOptions(items=2, streaming=True, fast_math=True),
    "half as many loads in flight a thread: fewer places of memory are open at once",
)
MANY = Way("more-in-flight", CudaOptions(items=8, streaming=True, fast_math=True), "eight vectors in flight a thread")
WAITING = 48
"""Blocks that can wait for each other without more loss than what is held wins."""


def row_ways(kernels: Sequence[Kernel], processors: int) -> list[Way]:
    """Return the ways, without those that come to the same layouts as an earlier one."""
    found: dict[tuple[object, ...], Way] = {}
    rows = [kernel for kernel in kernels if isinstance(kernel, Rows) and kernel.total]
    for way in ordered(rows, processors) if rows else ():
        layouts = [plan_of(one, way.options, processors).layout for one in rows]
        if way in HELD and not any(layout.team for layout in layouts):
            continue
        if way is WARPS and not any(layout.a_row_a_warp for layout in layouts):
            continue
        nests = [k for k in kernels if isinstance(k, Nest)]
        key = (*layouts, *((way.options.block, way.options.items) for _ in nests[:1]))
        found.setdefault(key, way)
    return list(found.values())


def ordered(rows: Sequence[Rows], processors: int) -> list[Way]:
    """Order the ways by how they fared on an H200, by the kind of the largest kernel."""
    largest = plan_of(max(rows, key=lambda one: one.total), WALKS.options, processors)
    if largest.layout.across:
        again = is_read_again([steps.walk for steps in largest.steps], largest.rows)
        return [WALKS, FEW, WIDE] if again else [FEW, WIDE, WALKS]
    team = plan_of(largest.rows, HELD[0].options, processors).layout.team
    walks = [WIDE, WALKS, MANY] if largest.layout.parts > 1 else [WALKS, WARPS, MANY, WIDE]
    if team > WAITING:
        return [*walks[:2], *HELD[1:]]
    return [*HELD, *walks[:3]] if team else walks
