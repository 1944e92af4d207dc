"""A stage as C++ with OpenMP."""

from collections.abc import Sequence

from cuda_agent.llm.builtin.blocked import AnyKernel, Blocked
from cuda_agent.llm.builtin.blocked_cpu import blocked_source
from cuda_agent.llm.builtin.cpu_options import PARALLEL_FROM, CpuOptions
from cuda_agent.llm.builtin.dtypes import HALVES, ITEM_BYTES, STORED
from cuda_agent.llm.builtin.emit import Emitted
from cuda_agent.llm.builtin.gemm_cpu import product_source
from cuda_agent.llm.builtin.loop_text import (
    decompose,
    emit_nest,
    nest_parameters,
    offset_text,
    output_steps,
    step_text,
    stored,
)
from cuda_agent.llm.builtin.nest import Access, Nest
from cuda_agent.llm.builtin.nest_cpu import access_pointers, element
from cuda_agent.llm.builtin.prelude import write_prelude
from cuda_agent.llm.builtin.row_cpu import RowSource
from cuda_agent.llm.builtin.rows import Rows
from cuda_agent.llm.builtin.stage import Product


def cpu_source(name: str, kernels: Sequence[AnyKernel], options: CpuOptions, title: str) -> str:
    """Return the whole file: settings, the functions it needs, a launcher for each stage."""
    functions: set[str] = set()
    bodies = [_kernel(f"{name}_{k}", kernel, options, functions) for k, kernel in enumerate(kernels)]
    if options.simd:
        functions.add("stream")
    if any(b.spec.dtype in HALVES for kernel in kernels for b in kernel.outputs):
        functions.add("memory")
    maths = ["fast_math.h", "std_math.h"] if options.fast_math else ["std_math.h"]
    prelude = write_prelude(functions, [*maths, "ops.h", "memory_cpu.h"])
    head = [
        *title.splitlines(),
        "#include <cmath>",
        "#include <cstdint>",
        "#include <cstring>",
        "#include <memory>",
        "#include <type_traits>",
        "#if defined(__AVX__)",
        "#include <immintrin.h>",
        "#endif",
        "",
        "#define FN static inline",
        "",
        "namespace {",
        "",
        *settings(options),
        "",
        prelude,
        "",
        "}  // namespace",
        "",
    ]
    return "\n".join([*head, *bodies])


def settings(options: CpuOptions) -> list[str]:
    """Return the lines that variants of one structure differ in."""
    return [
        f"constexpr bool kStream = {'true' if options.stream else 'false'};",
        f"constexpr int64_t kChunk = {options.chunk};",
        f"constexpr int64_t kTileRows = {options.tile_rows};",
        f"constexpr int64_t kTileColumns = {options.tile_columns};",
        f"constexpr int64_t kBlock = {options.block};",
        f"constexpr int64_t kLanes = {options.lanes};",
    ]


def signature(name: str, nest: Nest) -> str:
    """Return the launcher's declaration, without a semicolon."""
    return f'extern "C" void {name}({", ".join(nest_parameters(nest))})'


def _kernel(name: str, kernel: AnyKernel, options: CpuOptions, functions: set[str]) -> str:
    if isinstance(kernel, Blocked):
        return blocked_source(name, kernel, options, functions)
    if isinstance(kernel, Product):
        return product_source(name, kernel, options)
    if isinstance(kernel, Rows):
        return RowSource(name, kernel, options, functions).text()
    return _launcher(name, kernel, options, functions)


def _launcher(name: str, nest: Nest, options: CpuOptions, functions: set[str]) -> str:
    if nest.total == 0:
        return f"{signature(name, nest)} {{}}\n"
    if options.tiled and nest.tile_axis is not None:
        body = _tiled(nest, nest.tile_axis, options, functions)
    else:
        body = _rows(nest, options, functions)
    return "\n".join([f"{signature(name, nest)} {{", *(f"  {line}" if line else "" for line in body), "}", ""])


def _rows(nest: Nest, options: CpuOptions, functions: set[str]) -> list[str]:
    outer = list(range(len(nest.sizes) - 1))
    rows = nest.total // nest.inner
    emitted = emit_nest(nest, lambda access: element(access, "column"), outer, "column")
    functions |= emitted.functions
    return [
        f"constexpr int64_t kInner = {nest.inner}, kRows = {rows};",
        "constexpr int64_t kColumns = kInner < kChunk ? kInner : kChunk;",
        "constexpr int64_t kGroup = kInner < kChunk ? kChunk / kInner : 1;",
        "constexpr int64_t kParts = (kInner + kColumns - 1) / kColumns;",
        "constexpr int64_t kGroups = (kRows + kGroup - 1) / kGroup;",
        f"#pragma omp parallel if (kInner * kRows > {PARALLEL_FROM})",
        "{",
        *_buffers(nest, "kGroup * kColumns"),
        "#pragma omp for schedule(static)",
        "for (int64_t task = 0; task < kGroups * kParts; ++task) {",
        "  const int64_t first = task / kParts * kGroup, begin = task % kParts * kColumns;",
        "  const int64_t last = first + kGroup < kRows ? first + kGroup : kRows;",
        "  const int64_t count = begin + kColumns < kInner ? kColumns : kInner - begin;",
        "  for (int64_t row = first; row < last; ++row) {",
        *(f"    {line}" for line in decompose(nest, outer, "row")),
        *(f"    {line}" for line in access_pointers(nest.accesses, outer, "begin")),
        *(f"    {line}" for line in _output_pointers(nest, "row * kInner + begin", " + (row - first) * count")),
        *(f"    {line}" for line in _inner_loop(nest, emitted, options, "count")),
        "  }",
        *_flush(nest, "first * kInner + begin", "(last - first) * count", options),
        "}",
        *_fence(options),
        "}",
    ]


def _tiled(nest: Nest, axis: int, options: CpuOptions, functions: set[str]) -> list[str]:
    moved = [access for access in nest.accesses if nest.is_transposed(access)]
    direct = [access for access in nest.accesses if not nest.is_transposed(access)]

    def tiled(access: Access) -> str:
        return f"tile_{access.name}[line * kTileColumns + column]" if access in moved else element(access, "column")

    outer = [k for k in range(len(nest.sizes) - 1) if k != axis]
    emitted = emit_nest(nest, tiled, [*outer, axis], "column")
    functions |= emitted.functions
    steps = output_steps(nest)
    row = " + ".join([*(step_text(f"d{k}", steps[k]) for k in [*outer, axis]), "begin"])
    count = nest.total // (nest.inner * nest.sizes[axis])
    return [
        f"constexpr int64_t kLines = {nest.sizes[axis]}, kInner = {nest.inner}, kOuter = {count};",
        "constexpr int64_t kDown = (kLines + kTileRows - 1) / kTileRows;",
        "constexpr int64_t kAcross = (kInner + kTileColumns - 1) / kTileColumns;",
        f"#pragma omp parallel if (kLines * kInner * kOuter > {PARALLEL_FROM})",
        "{",
        *_buffers(nest, "kTileColumns"),
        *(f"alignas(64) {STORED[a.buffer.spec.dtype]} tile_{a.name}[kTileRows * kTileColumns];" for a in moved),
        "#pragma omp for schedule(static)",
        "for (int64_t task = 0; task < kOuter * kDown * kAcross; ++task) {",
        "  const int64_t begin = task % kAcross * kTileColumns, top = task / kAcross % kDown * kTileRows;",
        "  const int64_t count = begin + kTileColumns < kInner ? kTileColumns : kInner - begin;",
        "  const int64_t lines = top + kTileRows < kLines ? kTileRows : kLines - top;",
        *(["  const int64_t outer = task / (kAcross * kDown);"] if outer else []),
        *(f"  {line}" for line in decompose(nest, outer, "outer")),
        *(line for access in moved for line in _fill_tile(access, axis, outer)),
        "  for (int64_t line = 0; line < lines; ++line) {",
        f"    const int64_t d{axis} = top + line;",
        *(f"    {line}" for line in access_pointers(direct, [*outer, axis], "begin")),
        *(f"    {line}" for line in _output_pointers(nest, row, "")),
        *(f"    {line}" for line in _inner_loop(nest, emitted, options, "count")),
        *(f"  {line}" for line in _flush(nest, row, "count", options)),
        "  }",
        "}",
        *_fence(options),
        "}",
    ]


def _fill_tile(access: Access, axis: int, outer: list[int]) -> list[str]:
    start = offset_text(access.index, outer, "begin")
    stride = access.index.strides[-1]
    dtype = STORED[access.buffer.spec.dtype]
    return [
        "  for (int64_t column = 0; column < count; ++column) {",
        f"    const {dtype}* from = {access.buffer.name} + {start} + top + column * {stride};",
        f"    {dtype}* to = tile_{access.name} + column;",
        "    if (lines == kTileRows)",
        "      for (int64_t line = 0; line < kTileRows; ++line) to[line * kTileColumns] = from[line];",
        "    else",
        "      for (int64_t line = 0; line < lines; ++line) to[line * kTileColumns] = from[line];",
        "  }",
    ]


def _output_pointers(nest: Nest, place: str, staged: str) -> list[str]:
    return [
        f"{STORED[b.spec.dtype]}* {'' if nest.is_in_place(b) else '__restrict__ '}to_{b.name} = "
        f"kStream ? staged_{b.name}{staged} : {b.name} + {place};"
        for b in nest.outputs
    ]


def _buffers(nest: Nest, count: str) -> list[str]:
    return [f"alignas(64) {STORED[b.spec.dtype]} staged_{b.name}[kStream ? {count} : 1];" for b in nest.outputs]


def _inner_loop(nest: Nest, emitted: Emitted, options: CpuOptions, count: str) -> list[str]:
    pragma = ["#pragma omp simd"] if options.simd else []
    return [
        *pragma,
        f"for (int64_t column = 0; column < {count}; ++column) {{",
        *(f"  {line}" for line in emitted.statements),
        *(
            f"  to_{b.name}[column] = {stored(b.spec.dtype, result)};"
            for b, result in zip(nest.outputs, emitted.results, strict=True)
        ),
        "}",
    ]


def _flush(nest: Nest, start: str, count: str, options: CpuOptions) -> list[str]:
    if not options.simd:
        return []
    return [
        "  if (kStream) {",
        *(
            f"    stream_copy({b.name} + {start}, staged_{b.name}, ({count}) * {ITEM_BYTES[b.spec.dtype]}u);"
            for b in nest.outputs
        ),
        "  }",
    ]


def _fence(options: CpuOptions) -> list[str]:
    return ["if (kStream) stream_fence();"] if options.simd else []
