"""A stage as CUDA C++."""

from collections.abc import Sequence

from cuda_agent.llm.builtin.blocked import AnyKernel
from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.dtypes import ITEM_BYTES, STORED
from cuda_agent.llm.builtin.expr import Load, Position, depth_first
from cuda_agent.llm.builtin.gemm_cuda import product_source
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
from cuda_agent.llm.builtin.prelude import write_prelude
from cuda_agent.llm.builtin.row_cuda import CudaRowSource
from cuda_agent.llm.builtin.rows import Rows
from cuda_agent.llm.builtin.stage import Product

MAX_32_BIT = 2**31 - 1


def cuda_source(name: str, kernels: Sequence[AnyKernel], options: CudaOptions, title: str) -> str:
    """Write the whole file: settings, the functions it needs, a kernel and a launcher for each stage."""
    functions = {"memory", "pack"}
    bodies = [_stage(f"{name}_{k}", kernel, options, functions) for k, kernel in enumerate(kernels)]
    head = [
        *title.splitlines(),
        *(["#include <cublasLt.h>"] if "gemm" in functions else []),
        "#include <cuda_bf16.h>",
        "#include <cuda_fp16.h>",
        "#include <cuda_runtime.h>",
        "",
        "#include <cmath>",
        "#include <cstdint>",
        *(
            ["#include <cstdio>", "#include <map>", "#include <mutex>", "#include <tuple>"]
            if "gemm" in functions
            else []
        ),
        "#include <type_traits>",
        "",
        "#define FN [[maybe_unused]] static __device__ __forceinline__",
        "",
        "using Half = __half;",
        "using BFloat = __nv_bfloat16;",
        "",
        "namespace {",
        "",
        f"[[maybe_unused]] constexpr bool kStreaming = {'true' if options.streaming else 'false'};",
        f"[[maybe_unused]] constexpr int kBlock = {options.block};",
        f"[[maybe_unused]] constexpr int kItems = {options.items};",
        "[[maybe_unused]] constexpr int kTile = 32, kTileStep = 8;",
        "",
        write_prelude(functions, ["std_math.h", "ops.h", "memory_cuda.h", "gemm_cuda.h"]),
        "",
        "}  // namespace",
        "",
    ]
    return "\n".join([*head, *bodies])


def _stage(name: str, nest: AnyKernel, options: CudaOptions, functions: set[str]) -> str:
    if isinstance(nest, Product):
        functions.add("gemm")
        return product_source(name, nest, options)
    if isinstance(nest, Rows):
        return CudaRowSource(name, nest, options, functions).text()
    assert isinstance(nest, Nest), "blocks of a product are made on the cpu alone"
    if nest.total == 0:
        return f'extern "C" void {name}({_parameters(nest)}, cudaStream_t) {{}}\n'
    if options.tiled and nest.tile_axis is not None:
        return _tiled(name, nest, nest.tile_axis, functions)
    return _flat(name, nest, options, functions)


def _parameters(nest: Nest) -> str:
    return ", ".join(nest_parameters(nest))


def _names(nest: Nest) -> list[str]:
    return [b.name for b in (*nest.reads, *nest.outputs)]


def index_type(nest: Nest) -> str:
    """Choose the integer that holds every position: 32 bits where they suffice."""
    reach = [nest.total + 65536 * 4096]
    for index in (node.index for node in depth_first(list(nest.exprs)) if isinstance(node, Load | Position)):
        spans = (abs(step) * (size - 1) for step, size in zip(index.strides, nest.sizes, strict=True))
        reach.append(abs(index.offset) + sum(spans))
    return "int32_t" if max(reach) <= MAX_32_BIT else "int64_t"


def vector_width(nest: Nest) -> int:
    """Choose how many elements go into one load: 1 where a row does not consist of whole vectors."""
    streams = [access for access in nest.accesses if access.index.strides[-1] == 1]
    items = [ITEM_BYTES[access.buffer.spec.dtype] for access in streams]
    items += [ITEM_BYTES[b.spec.dtype] for b in nest.outputs]
    width = 16 // max(items)
    while width > 1 and not _divides(width, nest, streams):
        width //= 2
    return width


def _divides(width: int, nest: Nest, streams: list[Access]) -> bool:
    if len(nest.sizes) > 1 and nest.inner % width:
        return False
    starts = [access.index.offset for access in streams]
    starts += [stride for access in streams for stride in access.index.strides[:-1]]
    return all(start % width == 0 for start in starts)


def _flat(name: str, nest: Nest, options: CudaOptions, functions: set[str]) -> str:
    width = vector_width(nest) if options.vector else 1
    lines = [
        *_flat_elements(name, nest, functions),
        "",
        *_flat_kernel(name, nest),
        "",
        *_flat_launcher(name, nest, width),
    ]
    return "\n".join(lines)


def _flat_elements(name: str, nest: Nest, functions: set[str]) -> list[str]:
    """Write the function that computes N elements from `flat` on."""
    outer = list(range(len(nest.sizes) - 1))

    def element(access: Access) -> str:
        stride = access.index.strides[-1]
        if stride == 1:
            return f"pack_{access.name}.item[lane]"
        return f"one_{access.name}" if stride == 0 else f"{access.name}[lane * {stride}]"

    emitted = emit_nest(nest, element, outer, "(column + lane)", begin="0")
    functions |= emitted.functions
    index = index_type(nest)
    body = [
        f"const {index} column = flat % kInner;" if outer else f"[[maybe_unused]] const {index} column = flat;",
        *([f"const {index} row = flat / kInner;"] if outer else []),
        *decompose(nest, outer, "row", index),
        *(line for access in nest.accesses for line in _flat_load(access, outer)),
        *(f"Pack<{STORED[b.spec.dtype]}, N> pack_{b.name};" for b in nest.outputs),
        "#pragma unroll",
        "for (int lane = 0; lane < N; ++lane) {",
        *(f"  {line}" for line in emitted.statements),
        *(
            f"  pack_{b.name}.item[lane] = {stored(b.spec.dtype, result)};"
            for b, result in zip(nest.outputs, emitted.results, strict=True)
        ),
        "}",
        *(f"store<kStreaming>({b.name} + flat, pack_{b.name});" for b in nest.outputs),
    ]
    return [
        "template <int N>",
        f"static __device__ __forceinline__ void {name}_elements({index} flat, {_parameters(nest)}) {{",
        *([f"  constexpr {index} kInner = {nest.inner};"] if outer else []),
        *(f"  {line}" for line in body),
        "}",
    ]


def _flat_kernel(name: str, nest: Nest) -> list[str]:
    index = index_type(nest)
    arguments = ", ".join(_names(nest))
    return [
        "template <int N>",
        f"__global__ void __launch_bounds__(kBlock) {name}_kernel({_parameters(nest)}) {{",
        f"  constexpr {index} kTotal = {nest.total}, kVectors = kTotal / N;",
        f"  const {index} step = static_cast<{index}>(gridDim.x) * kBlock * kItems;",
        f"  const {index} start = static_cast<{index}>(blockIdx.x) * kBlock * kItems + threadIdx.x;",
        f"  for ({index} first = start; first < kVectors; first += step) {{",
        "#pragma unroll",
        "    for (int item = 0; item < kItems; ++item) {",
        f"      const {index} vector = first + item * kBlock;",
        f"      if (vector < kVectors) {name}_elements<N>(vector * N, {arguments});",
        "    }",
        "  }",
        "  if (kTotal % N != 0 && blockIdx.x == 0 && threadIdx.x < kTotal % N)",
        f"    {name}_elements<1>(kVectors * N + threadIdx.x, {arguments});",
        "}",
    ]


def _flat_load(access: Access, outer: list[int]) -> list[str]:
    stride = access.index.strides[-1]
    start = f"{access.buffer.name} + ({offset_text(access.index, outer, 'column')})"
    dtype = STORED[access.buffer.spec.dtype]
    if stride == 1:
        return [f"const auto pack_{access.name} = *reinterpret_cast<const Pack<{dtype}, N>*>({start});"]
    if stride == 0:
        return [f"const {dtype} one_{access.name} = *({start});"]
    return [f"const {dtype}* {access.name} = {start};"]


def _flat_launcher(name: str, nest: Nest, width: int) -> list[str]:
    arguments = ", ".join(_names(nest))
    streams = {a.buffer.name: a.buffer for a in nest.accesses if a.index.strides[-1] == 1}
    checks = [
        f"reinterpret_cast<uintptr_t>({b.name}) % {width * ITEM_BYTES[b.spec.dtype]} == 0"
        for b in [*streams.values(), *nest.outputs]
    ]
    lines = [
        f'extern "C" void {name}({_parameters(nest)}, cudaStream_t stream) {{',
        "  const auto blocks = [](int64_t vectors) {",
        "    const int64_t needed = (vectors + kBlock * kItems - 1) / (kBlock * kItems);",
        "    return static_cast<unsigned>(needed < 1 ? 1 : (needed > 65536 ? 65536 : needed));",
        "  };",
    ]
    single = f"{name}_kernel<1><<<blocks({nest.total}), kBlock, 0, stream>>>({arguments});"
    if width == 1:
        return [*lines, f"  {single}", "}", ""]
    return [
        *lines,
        f"  const bool aligned = {' && '.join(checks)};",
        "  if (aligned)",
        f"    {name}_kernel<{width}><<<blocks({nest.total // width}), kBlock, 0, stream>>>({arguments});",
        "  else",
        f"    {single}",
        "}",
        "",
    ]


def _tiled(name: str, nest: Nest, axis: int, functions: set[str]) -> str:
    count = nest.total // (nest.inner * nest.sizes[axis])
    return "\n".join(
        [
            *_tiled_kernel(name, nest, axis, count, functions),
            "",
            f'extern "C" void {name}({_parameters(nest)}, cudaStream_t stream) {{',
            f"  constexpr int64_t kTasks = {count * -(-nest.sizes[axis] // 32) * -(-nest.inner // 32)}LL;",
            "  const unsigned blocks = static_cast<unsigned>(kTasks < 65536 ? kTasks : 65536);",
            f"  {name}_kernel<<<blocks, dim3(kTile, kTileStep), 0, stream>>>({', '.join(_names(nest))});",
            "}",
            "",
        ]
    )


def _tiled_kernel(name: str, nest: Nest, axis: int, count: int, functions: set[str]) -> list[str]:
    """Write the kernel for `count` matrices, each brought tile by tile through shared memory."""
    moved = [access for access in nest.accesses if nest.is_transposed(access)]
    outer = [k for k in range(len(nest.sizes) - 1) if k != axis]

    def element(access: Access) -> str:
        if access in moved:
            return f"tile_{access.name}[threadIdx.x][row]"
        return f"{access.buffer.name}[{offset_text(access.index, [*outer, axis], 'column')}]"

    emitted = emit_nest(nest, element, [*outer, axis], "0", begin="column")
    functions |= emitted.functions
    index = index_type(nest)
    return [
        f"__global__ void __launch_bounds__(kTile * kTileStep) {name}_kernel({_parameters(nest)}) {{",
        f"  constexpr {index} kLines = {nest.sizes[axis]}, kInner = {nest.inner}, kOuter = {count};",
        f"  constexpr {index} kDown = (kLines + kTile - 1) / kTile, kAcross = (kInner + kTile - 1) / kTile;",
        *(f"  __shared__ {STORED[a.buffer.spec.dtype]} tile_{a.name}[kTile][kTile + 1];" for a in moved),
        f"  for ({index} task = blockIdx.x; task < kOuter * kDown * kAcross; task += gridDim.x) {{",
        f"    const {index} begin = task % kAcross * kTile, top = task / kAcross % kDown * kTile;",
        *([f"    const {index} outer = task / (kAcross * kDown);"] if outer else []),
        *(f"    {line}" for line in decompose(nest, outer, "outer", index)),
        "    for (int row = threadIdx.y; row < kTile; row += kTileStep) {",
        f"      const {index} column = begin + row, line = top + threadIdx.x;",
        "      if (column < kInner && line < kLines) {",
        *(f"        {_tile_load(access, outer)}" for access in moved),
        "      }",
        "    }",
        "    __syncthreads();",
        "    for (int row = threadIdx.y; row < kTile; row += kTileStep) {",
        f"      const {index} column = begin + threadIdx.x, d{axis} = top + row;",
        f"      if (column < kInner && d{axis} < kLines) {{",
        *(f"        {line}" for line in emitted.statements),
        *(f"        {line}" for line in _tile_stores(nest, sorted([*outer, axis]), emitted.results)),
        "      }",
        "    }",
        "    __syncthreads();",
        "  }",
        "}",
    ]


def _tile_stores(nest: Nest, axes: list[int], results: Sequence[str]) -> list[str]:
    steps = output_steps(nest)
    place = " + ".join([*(step_text(f"d{k}", steps[k]) for k in axes), "column"])
    return [
        f"store<kStreaming>({b.name} + ({place}), "
        f"Pack<{STORED[b.spec.dtype]}, 1>{{{{{stored(b.spec.dtype, result)}}}}});"
        for b, result in zip(nest.outputs, results, strict=True)
    ]


def _tile_load(access: Access, outer: list[int]) -> str:
    start = offset_text(access.index, outer, "column")
    return f"tile_{access.name}[row][threadIdx.x] = {access.buffer.name}[{start} + line];"
