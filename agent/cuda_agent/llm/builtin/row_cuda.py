"""A row kernel as CUDA C++, in the conservative way: an element a thread at a time, a walk for each pass.

A row belongs to a warp where it is short, else to a block; neighbouring rows that lie side by side (`across`) belong to
the lanes of a warp, and the block's warps share their columns. Few long rows are cut into parts: each part's sums go to
a workspace, and the next kernel puts them together, always in the same order.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.dtypes import COMPUTED
from cuda_agent.llm.builtin.emit import Emitted
from cuda_agent.llm.builtin.expr import Index
from cuda_agent.llm.builtin.graph import TensorSpec
from cuda_agent.llm.builtin.loop_text import stored
from cuda_agent.llm.builtin.nest import Access
from cuda_agent.llm.builtin.row_text import (
    Loops,
    arguments,
    combined,
    emit_pass,
    identity,
    loops_of,
    needed_functions,
    parameters,
    place_text,
    split_text,
    used_numbers,
)
from cuda_agent.llm.builtin.rows import Pass, Rows, Sum, indices_of
from cuda_agent.llm.builtin.stage import Buffer

SPLIT_FROM = 1 << 16
"""Columns from which a row is cut into parts when there are few rows."""
SPLIT_BELOW = 264
"""Rows (or runs of rows) that fill a large GPU: two blocks on each multiprocessor."""
PARTS = 256
WORKSPACE = "parts_"
MAX_32_BIT = 2**31 - 1
WARP_COLUMNS = 1024
"""Rows up to this long belong to one warp."""


@dataclass(frozen=True)
class Shape:
    """How a kernel's threads are laid out."""

    across: bool
    warp: bool
    """A warp a row."""
    parts: int
    """Parts of a row; 1: the whole kernel is one launch."""
    blocks: int
    """Rows, or runs of 32 rows."""


def shape_of(rows: Rows) -> Shape:
    """Choose the layout."""
    blocks = rows.count // rows.run * -(-rows.run // 32) if rows.across else rows.count
    width = max(one.width for one in rows.passes)
    parts = min(PARTS, -(-width // 4096)) if blocks < SPLIT_BELOW and width >= SPLIT_FROM else 1
    return Shape(rows.across, width <= WARP_COLUMNS and not rows.across and parts == 1, parts, blocks)


def with_workspace(rows: Rows) -> Rows:
    """Return the kernel with the buffers that its parts' sums are kept in, where it is split."""
    shape = shape_of(rows)
    if rows.total == 0 or shape.parts == 1:
        return rows
    size = (shape.blocks * shape.parts * (32 if shape.across else 1),)
    names = {f"{WORKSPACE}{n.name}": n.dtype for n in rows.numbers.values()}
    spaces = tuple(Buffer(name, TensorSpec(name, size, (1,), dtype)) for name, dtype in names.items())
    return replace(rows, outputs=rows.outputs + spaces)


def index_kind(rows: Rows) -> str:
    """Choose the integer that holds every position: 32 bits where they suffice."""
    reach = [rows.total + 65536 * 1024]
    for one in rows.passes:
        for index in indices_of(one):
            spans = (abs(step) * (size - 1) for step, size in zip(index.strides, one.rows + one.columns, strict=True))
            reach.append(abs(index.offset) + sum(spans))
    return "int32_t" if max(reach) <= MAX_32_BIT else "int64_t"


def variable(n: Sum) -> str:
    """Return the name of a number in registers."""
    return f"number_{n.name}"


class CudaRowSource:
    """Writes one kernel and its launcher."""

    def __init__(self, name: str, rows: Rows, options: CudaOptions, functions: set[str]) -> None:
        self.name = name
        self.rows = rows
        self.options = options
        self.functions = functions
        self.shape = shape_of(rows)
        self.spaces = [buffer for buffer in rows.outputs if buffer.name.startswith(WORKSPACE)]
        self.kind = index_kind(rows)
        threads = max(64, min(options.block, 1024))
        self.threads = (32, 8) if self.shape.warp or self.shape.across else (threads, 1)

    def text(self) -> str:
        """Return the kernels and the launcher."""
        params = parameters(self.rows)
        if self.rows.total == 0:
            return f'extern "C" void {self.name}({", ".join(params)}, cudaStream_t) {{}}\n'
        self.functions |= needed_functions(self.rows) | {"row_total"}
        passes = list(enumerate(self.rows.passes))
        groups = [[one] for one in passes] if self.spaces else [passes]
        lines = [line for k, group in enumerate(groups) for line in self._kernel(k, group, params)]
        lines += [f'extern "C" void {self.name}({", ".join(params)}, cudaStream_t stream) {{']
        lines += [f"  {self._launch(k)}" for k in range(len(groups))]
        return "\n".join([*lines, "}", ""])

    def _launch(self, number: int) -> str:
        rows_a_block = self.threads[1] if self.shape.warp else 1
        blocks = -(-self.shape.blocks // rows_a_block) * self.shape.parts
        grid = min(blocks, 2**31 - 1)
        layout = f"dim3({self.threads[0]}, {self.threads[1]})"
        return f"{self.name}_kernel{number}<<<{grid}, {layout}, 0, stream>>>({', '.join(arguments(self.rows))});"

    def _kernel(self, number: int, group: list[tuple[int, Pass]], params: list[str]) -> list[str]:
        count = self.threads[0] * self.threads[1]
        body = [*self._place(), *self._earlier(group[0][1])]
        for _, one in group:
            body += self._pass(one)
        return [
            f"__global__ void __launch_bounds__({count}) {self.name}_kernel{number}({', '.join(params)}) {{",
            *(f"  {line}" for line in body),
            "}",
            "",
        ]

    def _place(self) -> list[str]:
        """Say which row, and which part of it, this thread works on; every thread of a block stays to the end."""
        kind, parts = self.kind, self.shape.parts
        lines = [
            f"const {kind} block = blockIdx.x / {parts};",
            f"[[maybe_unused]] const int part = blockIdx.x % {parts};",
        ]
        if self.shape.across:
            run = self.rows.run
            steps = -(-run // 32)
            return [*lines, f"[[maybe_unused]] const {kind} row = block / {steps};",
                    f"const {kind} begin = block % {steps} * 32, column = threadIdx.x;",
                    f"const bool active = begin + column < {run};"]  # fmt: skip
        row = f"block * {self.threads[1]} + threadIdx.y" if self.shape.warp else "block"
        return [*lines, f"const {kind} row = {row};", f"const bool active = row < {self.rows.count};"]

    def _earlier(self, first: Pass) -> list[str]:
        """Put together what earlier kernels left of the numbers that this one uses."""
        if not self.spaces:
            return []
        lines: list[str] = []
        for n in used_numbers(first, self.rows):
            parts, at = self.shape.parts, "(block * {0} + k) * 32 + column" if self.shape.across else "block * {0} + k"
            part = f"{WORKSPACE}{n.name}[{at.format(parts)}]"
            lines += [
                f"{COMPUTED[n.dtype]} {variable(n)} = {identity(n)};",
                f"for (int k = {self._lane_start()}; k < {parts}; k += {self._lane_step()}) "
                f"{variable(n)} = {combined(n, variable(n), part)};",
                self._total(n),
            ]
        return lines

    def _lane_start(self) -> str:
        return "threadIdx.y" if self.shape.across else "threadIdx.x"

    def _lane_step(self) -> int:
        return self.threads[1] if self.shape.across else self.threads[0]

    def _total(self, n: Sum) -> str:
        kind = "warp" if self.shape.warp else "across" if self.shape.across else "block"
        text = combined(n, "a", "b")
        count = self.threads[1] if self.shape.across else self.threads[0]
        name = variable(n)
        return f"{name} = {kind}_total<{count}>({name}, [](auto a, auto b) {{ return {text}; }});"

    def _pass(self, one: Pass) -> list[str]:
        loops = loops_of(one, self.rows.across)
        walk = loops.walk if self.rows.across else (*loops.walk, loops.inner)
        count = loops.walk_count if self.rows.across else one.width
        emitted = self._emit(one, loops)
        kind, parts = self.kind, self.shape.parts
        first, last = "0", str(count)
        if parts > 1:
            first, last = (f"static_cast<{kind}>({count}LL * {part} / {parts})" for part in ("part", "(part + 1)"))
        sums = [
            f"{variable(n)} = {combined(n, variable(n), r)};" for n, r in zip(one.sums, emitted.results, strict=False)
        ]
        return [
            *(f"{COMPUTED[n.dtype]} {variable(n)} = {identity(n)};" for n in one.sums),
            "if (active) {",
            *(f"  {line}" for line in split_text(loops.row, loops.sizes, "row", kind)),
            f"  const {kind} last = {last};",
            "#pragma unroll 4",
            f"  for ({kind} walk = {first} + {self._lane_start()}; walk < last; walk += {self._lane_step()}) {{",
            *(f"    {line}" for line in split_text(walk, loops.sizes, "walk", kind)),
            *(f"    {line}" for line in [*emitted.statements, *sums, *self._stores(one, loops, emitted.results)]),
            "  }",
            "}",
            *(self._total(n) for n in one.sums),
            *(self._keep(n) for n in one.sums if self.spaces),
        ]

    def _keep(self, n: Sum) -> str:
        place = f"block * {self.shape.parts} + part"
        if self.shape.across:
            return f"if (threadIdx.y == 0) {WORKSPACE}{n.name}[({place}) * 32 + column] = {variable(n)};"
        return f"if (threadIdx.x == 0) {WORKSPACE}{n.name}[{place}] = {variable(n)};"

    def _inner(self, loops: Loops) -> tuple[str, str]:
        """Return the innermost loop's start and its variable."""
        return ("begin", "column") if self.rows.across else ("0", f"d{loops.inner}")

    def _emit(self, one: Pass, loops: Loops) -> Emitted:
        begin, column = self._inner(loops)

        def memory(access: Access) -> str:
            return f"{access.buffer.name}[{self._at(access.index, loops)}]"

        emitted = emit_pass(one, self.rows, loops, memory, lambda name: f"number_{name}", begin, column)
        self.functions |= emitted.functions
        return emitted

    def _at(self, index: Index, loops: Loops) -> str:
        begin, column = self._inner(loops)
        step = index.strides[loops.inner]
        return place_text(index, loops, begin) + (f" + {column} * {step}" if step else "")

    def _stores(self, one: Pass, loops: Loops, results: Sequence[str]) -> list[str]:
        lines = []
        for w, result in zip(one.writes, results[len(one.sums) :], strict=True):
            value = stored(w.buffer.spec.dtype, result)
            lines.append(f"{w.buffer.name}[{self._at(w.place, loops)}] = {value};")
        return lines
