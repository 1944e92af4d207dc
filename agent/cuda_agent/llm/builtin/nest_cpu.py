"""A part of a nest as C++: the elements from one position of its outputs to another, by one thread."""

from cuda_agent.llm.builtin.cpu_options import CpuOptions
from cuda_agent.llm.builtin.dtypes import HALVES, STORED
from cuda_agent.llm.builtin.loop_text import decompose, emit_nest, nest_parameters, offset_text, stored
from cuda_agent.llm.builtin.nest import Access, Nest


def nest_part(name: str, nest: Nest, options: CpuOptions, functions: set[str]) -> str:
    """Write the function NAME(from, to, buffers)."""
    outer = list(range(len(nest.sizes) - 1))
    emitted = emit_nest(nest, lambda access: element(access, "column"), outer, "column")
    functions |= emitted.functions
    if any(b.spec.dtype in HALVES for b in nest.outputs):
        functions.add("memory")
    stores = [
        f"to_{b.name}[column] = {stored(b.spec.dtype, result)};"
        for b, result in zip(nest.outputs, emitted.results, strict=True)
    ]
    return "\n".join(
        [
            f"static void {name}({', '.join(['int64_t from', 'int64_t to', *nest_parameters(nest)])}) {{",
            f"  constexpr int64_t kInner = {nest.inner};",
            "  for (int64_t position = from, count; position < to; position += count) {",
            "    const int64_t begin = position % kInner;",
            "    count = to - position < kInner - begin ? to - position : kInner - begin;",
            *(["    const int64_t row = position / kInner;"] if outer else []),
            *(f"    {line}" for line in decompose(nest, outer, "row")),
            *(f"    {line}" for line in access_pointers(nest.accesses, outer, "begin")),
            *(
                f"    {STORED[b.spec.dtype]}* {'' if nest.is_in_place(b) else '__restrict__ '}to_{b.name} = "
                f"{b.name} + position;"
                for b in nest.outputs
            ),
            *(["#pragma omp simd"] if options.simd else []),
            "    for (int64_t column = 0; column < count; ++column) {",
            *(f"      {line}" for line in [*emitted.statements, *stores]),
            "    }",
            "  }",
            "}",
            "",
        ]
    )


def element(access: Access, column: str) -> str:
    """Say how an element of the innermost loop is read."""
    stride = access.index.strides[-1]
    if stride == 0:
        return f"{access.name}[0]"
    return f"{access.name}[{column}]" if stride == 1 else f"{access.name}[{column} * {stride}]"


def access_pointers(accesses: tuple[Access, ...] | list[Access], outer: list[int], begin: str) -> list[str]:
    """Point each access at where the innermost loop starts."""
    return [
        f"const {STORED[a.buffer.spec.dtype]}* {a.name} = {a.buffer.name} + ({offset_text(a.index, outer, begin)});"
        for a in accesses
    ]
