"""A design: the kernels of one operator, their variants in the order of their promise, and their files."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.binding_source import binding_source
from cuda_agent.llm.builtin.cpu_options import CpuOptions
from cuda_agent.llm.builtin.cpu_source import cpu_source
from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.cuda_source import PROCESSORS, cuda_source
from cuda_agent.llm.builtin.dtypes import ITEM_BYTES
from cuda_agent.llm.builtin.graph import Graph
from cuda_agent.llm.builtin.keep import with_kept
from cuda_agent.llm.builtin.kernels import Kernel, plan_kernels
from cuda_agent.llm.builtin.module_source import module_source
from cuda_agent.llm.builtin.nest import Nest
from cuda_agent.llm.builtin.row_cuda import with_workspace
from cuda_agent.llm.builtin.row_plan import spaced
from cuda_agent.llm.builtin.row_variants import row_ways
from cuda_agent.llm.builtin.rows import Rows
from cuda_agent.llm.builtin.stage import Plan

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


@dataclass(frozen=True)
class Design:
    """Everything that is decided before a file is written."""

    name: str
    summary: str
    """What the kernels do, in a sentence."""
    graph: Graph
    plan: Plan
    kernels: tuple[Kernel, ...]

    @property
    def target(self) -> str:
        """What the kernels are written for: "cpu" or "cuda"."""
        return self.graph.target

    @property
    def kernel_path(self) -> str:
        """The file that variants differ in."""
        return f"kernels/{self.name}.{'cu' if self.target == 'cuda' else 'cpp'}"

    @property
    def kernel_bytes(self) -> int:
        """What the kernels must read and write."""
        return sum(_kernel_bytes(kernel) for kernel in self.kernels)

    def kernel(self, variant: Variant) -> str:
        """Return the text of the kernel file."""
        title = f"// {self.summary}\n// variant: {variant.name}"
        kernels = self.planned(variant)
        if isinstance(variant.options, CudaOptions):
            return cuda_source(self.name, kernels, variant.options, title, self.processors)
        return cpu_source(self.name, kernels, variant.options, title)

    def files(self, variant: Variant) -> dict[str, str]:
        """Every file of the submission, by its path."""
        kernels = self.planned(variant)
        return {
            self.kernel_path: self.kernel(variant),
            f"kernels/{self.name}_binding.cpp": binding_source(self.name, kernels, self.target),
            "model_new.py": module_source(self.name, self.graph, self.plan, kernels),
        }

    @property
    def processors(self) -> int:
        """Multiprocessors of the GPU."""
        return int(self.graph.device.get("multiprocessors") or PROCESSORS)

    def planned(self, variant: Variant) -> list[Kernel]:
        """Return the kernels with the workspaces that a variant needs."""
        options = variant.options
        if not isinstance(options, CudaOptions):
            return list(self.kernels)
        return [with_space(kernel, options, self.processors) for kernel in self.kernels]

    def variants(self) -> Mapping[str, Variant]:
        """By name, the best expected first, the conservative one last."""
        found = _cuda_variants(self) if self.target == "cuda" else _cpu_variants(self)
        return {variant.name: variant for variant in found}


def make_design(name: str, summary: str, graph: Graph, plan: Plan) -> Design:
    """Plan the kernels."""
    return Design(name, summary, graph, plan, plan_kernels(plan))


def with_space(kernel: Kernel, options: CudaOptions, processors: int) -> Kernel:
    """Return a kernel for cuda with the workspace that it needs."""
    if not isinstance(kernel, Rows):
        return kernel
    return spaced(kernel, options, processors) if options.walks else with_workspace(kernel)


def _kernel_bytes(kernel: Kernel) -> int:
    read = {access.buffer.name: access.buffer.spec.bytes for access in kernel.accesses}
    return sum(read.values()) + sum(buffer.spec.bytes for buffer in kernel.outputs)


def _cpu_variants(design: Design) -> list[Variant]:
    outputs = [buffer for kernel in design.kernels for buffer in kernel.outputs]
    written = max(buffer.spec.bytes for buffer in outputs)
    chunk = STAGED_BYTES // max(ITEM_BYTES[buffer.spec.dtype] for buffer in outputs)
    cores = int(design.graph.device.get("cores") or 2)
    stream = written >= STREAM_FROM_BYTES
    streamed = CpuOptions(stream=True, chunk=chunk, cores=cores)
    variants = [
        Variant("streamed", streamed, "write the output past the caches, so that it is not read first"),
        Variant(
            "cached", CpuOptions(cores=cores), "write the output through the caches, where it may be read from soon"
        ),
    ]
    rows = [kernel for kernel in design.kernels if isinstance(kernel, Rows)]
    if not stream or (rows and written < ROWS_STREAM_FROM_BYTES):
        variants.reverse()
    if rows and not stream:
        variants = variants[:1]
    first = variants[0].options
    assert isinstance(first, CpuOptions)
    variants += _cpu_row_variants(first, rows) if rows else _cpu_nest_variants(design, first)
    plain = CpuOptions(tiled=False, simd=False, fast_math=False, keep=False, cores=cores)
    idea = "libm, plain loops and no tiles: slower, and nothing that could be wrong"
    return [*variants, Variant(CONSERVATIVE, plain, idea)]


def _cpu_nest_variants(design: Design, first: CpuOptions) -> list[Variant]:
    if any(isinstance(kernel, Nest) and kernel.tile_axis is not None for kernel in design.kernels):
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


def _cuda_variants(design: Design) -> list[Variant]:
    rows = any(isinstance(kernel, Rows) for kernel in design.kernels)
    idea = "one element a thread at a time: slower, and nothing that could be wrong"
    plain = Variant(CONSERVATIVE, CudaOptions(vector=False, tiled=False, walks=False), idea)
    ways = row_ways(design.kernels, design.processors) if rows else []
    return [
        *(Variant(way.name, way.options, way.idea) for way in ways),
        *([] if ways else _cuda_nest_variants()),
        plain,
    ]


def _cuda_nest_variants() -> list[Variant]:
    return [
        Variant("vector", CudaOptions(), "sixteen bytes a load and store where the layout allows it"),
        Variant(
            "streaming",
            CudaOptions(streaming=True),
            "mark the output as used once, so that it leaves the L2 cache to the inputs",
        ),
        Variant("wide-blocks", CudaOptions(block=512), "blocks of 512 threads"),
        Variant("more-per-thread", CudaOptions(items=4), "four vectors a thread, loads issued before they are used"),
    ]
