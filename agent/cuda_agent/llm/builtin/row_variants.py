"""Which ways to write row kernels for cuda are worth a try, in the order of their promise."""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.kernels import Kernel
from cuda_agent.llm.builtin.nest import Nest
from cuda_agent.llm.builtin.row_plan import plan_of
from cuda_agent.llm.builtin.rows import Rows


@dataclass(frozen=True)
class Way:
    """A way to write the kernels, and why it may be faster."""

    name: str
    options: CudaOptions
    idea: str


HELD = [
    Way(
        "held",
        CudaOptions(held=2, items=4, streaming=True),
        "hold each row in shared memory between its walks, two blocks on a multiprocessor: memory is read once",
    ),
    Way(
        "held-in-smaller-pieces",
        CudaOptions(held=4, items=4, streaming=True),
        "hold each row with four smaller blocks on a multiprocessor: some load while others store",
    ),
]
WALKS = [
    Way(
        "walks",
        CudaOptions(items=4, streaming=True),
        "read a row once for all of its numbers, four vectors in flight a thread",
    ),
    Way("more-in-flight", CudaOptions(items=8, streaming=True), "eight vectors in flight a thread"),
    Way("wide-blocks", CudaOptions(items=4, block=512, streaming=True), "blocks of 512 threads"),
]


def row_ways(kernels: Sequence[Kernel], processors: int) -> list[Way]:
    """Return the ways, without those that come to the same layouts as an earlier one."""
    found: dict[tuple[object, ...], Way] = {}
    for way in [*HELD, *WALKS]:
        layouts = [plan_of(k, way.options, processors).layout for k in kernels if isinstance(k, Rows) and k.total]
        if way in HELD and not any(layout.team for layout in layouts):
            continue
        nests = [k for k in kernels if isinstance(k, Nest)]
        key = (*layouts, *((way.options.block, way.options.items) for _ in nests[:1]))
        found.setdefault(key, way)
    return list(found.values())
