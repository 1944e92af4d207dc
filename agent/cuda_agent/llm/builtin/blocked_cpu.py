"""A product and what comes behind it as one C++ function: its threads take blocks of rows."""

from dataclasses import replace

from cuda_agent.llm.builtin.blocked import Blocked
from cuda_agent.llm.builtin.cpu_options import PARALLEL_FROM, CpuOptions
from cuda_agent.llm.builtin.dtypes import ITEM_BYTES, STORED
from cuda_agent.llm.builtin.gemm_cpu import multiplying, start
from cuda_agent.llm.builtin.loop_text import declared
from cuda_agent.llm.builtin.nest import Nest
from cuda_agent.llm.builtin.nest_cpu import nest_part
from cuda_agent.llm.builtin.row_cpu import RowSource

LEAST_ROWS = 16
"""A product of fewer rows reads the right matrix too often."""


def parameters(blocked: Blocked) -> list[str]:
    """Declare what the launcher takes."""
    # The parts write what others of them read, each by its own name.
    return declared(blocked.reads, blocked.outputs, {buffer.name for buffer in blocked.outputs})


def block_rows(blocked: Blocked, options: CpuOptions) -> int:
    """Choose how many rows a block has: what fits, and as many blocks for each core."""
    product = blocked.product
    fitting = options.product_bytes // (product.columns * ITEM_BYTES[product.buffer.spec.dtype])
    blocks = -(-product.rows // max(fitting, LEAST_ROWS))
    if product.batch < options.cores:
        blocks = -(-blocks // options.cores) * options.cores
    return max(-(-product.rows // blocks), min(LEAST_ROWS, product.rows))


def blocked_source(name: str, blocked: Blocked, options: CpuOptions, functions: set[str]) -> str:
    """Write the product of some rows, what follows over some rows, and the launcher."""
    product, after = blocked.product, blocked.after
    kind, step = STORED[product.buffer.spec.dtype], block_rows(blocked, options)
    if isinstance(after, Nest):
        part = nest_part(f"{name}_after", after, options, functions)
    else:
        part = RowSource(f"{name}_after", after, replace(options, split=False), functions).part()
    given = ", ".join(buffer.name for buffer in (*after.reads, *after.outputs))
    columns, width = (
        product.columns,
        after.total // blocked.lines if isinstance(after, Nest) else after.count // blocked.lines,
    )
    left = 1 if product.left.flipped else product.left.lead
    made = product.buffer.name
    room = f"  std::unique_ptr<{kind}[]> room(new {kind}[kStep * {columns}]);"
    return "\n".join(
        [
            *multiplying(name, product),
            part,
            f'extern "C" void {name}({", ".join(parameters(blocked))}) {{',
            f"  constexpr int64_t kRows = {product.rows}, kStep = {step}, kBlocks = (kRows + kStep - 1) / kStep;",
            f"#pragma omp parallel if ({product.flops} > {PARALLEL_FROM})",
            "  {",
            *([room] if blocked.private else []),
            "#pragma omp for schedule(dynamic)",
            f"  for (int64_t task = 0; task < {product.batch} * kBlocks; ++task) {{",
            "    const int64_t batch = task / kBlocks, from = task % kBlocks * kStep;",
            "    const int count = static_cast<int>(from + kStep < kRows ? kStep : kRows - from);",
            "    const int64_t first = batch * kRows + from;",
            *([f"    {kind}* {made} = room.get() - first * {columns};"] if blocked.private else []),
            f"    {name}_multiply({start(product.left, 'batch')} + from * {left}, {start(product.right, 'batch')}, "
            f"{made} + first * {columns}, count);",
            f"    {name}_after(first * {width}, (first + count) * {width}, {given});",
            "  }",
            "  }",
            "}",
            "",
        ]
    )
