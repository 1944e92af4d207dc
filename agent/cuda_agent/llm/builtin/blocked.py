"""A product and what comes behind it, block of rows by block of rows, while a block is in a cache.

A block's rows are made by one thread; what reads them follows at once, over those rows alone. Where nobody else needs
the product, it never goes to memory: each thread has room for one block.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cuda_agent.llm.builtin.expr import Index
from cuda_agent.llm.builtin.graph import Shape, dense_strides
from cuda_agent.llm.builtin.in_place import covers_all, loads_of
from cuda_agent.llm.builtin.kernels import Kernel
from cuda_agent.llm.builtin.nest import Nest
from cuda_agent.llm.builtin.rows import Rows
from cuda_agent.llm.builtin.stage import Buffer, Product

MAX_DEPTH = 2048
"""From about this depth on the product takes all the time; what a block reads of the right matrix would be too much."""


@dataclass(frozen=True)
class Blocked:
    """One kernel of a product and the kernel behind it."""

    product: Product
    after: Nest | Rows
    private: bool
    """Nobody else reads the product."""

    @property
    def total(self) -> int:
        """Elements of the product."""
        return self.product.total

    @property
    def lines(self) -> int:
        """Rows of the product, of all batches together."""
        return self.product.batch * self.product.rows

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """What it reads and does not write, each buffer once."""
        made = {buffer.name for buffer in (*self.product.outputs, *self.outputs)}
        both = {buffer.name: buffer for buffer in (*self.product.reads, *self.after.reads)}
        return tuple(buffer for name, buffer in both.items() if name not in made)

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """What it writes."""
        own = () if self.private else self.product.outputs
        return tuple({buffer.name: buffer for buffer in (*own, *self.after.outputs)}.values())


AnyKernel = Kernel | Blocked


def with_blocks(kernels: Sequence[Kernel], results: frozenset[str]) -> tuple[AnyKernel, ...] | None:
    """Return the kernels with each product and the kernel behind it as one, where that holds; None where it never does.

    `results` are the buffers that are returned.
    """
    done: list[AnyKernel] = []
    for place, kernel in enumerate(kernels):
        product = done[-1] if done else None
        if isinstance(product, Product) and not isinstance(kernel, Product) and follows(product, kernel):
            name = product.buffer.name
            others = {buffer.name for other in kernels[place + 1 :] for buffer in other.reads}
            kept = results | others | {buffer.name for buffer in kernel.outputs}
            done[-1] = Blocked(product, kernel, name not in kept)
        else:
            done.append(kernel)
    return tuple(done) if any(isinstance(one, Blocked) for one in done) else None


def follows(product: Product, kernel: Nest | Rows) -> bool:
    """Whether a kernel reads the product row by row, in the order of its rows, so that it can run over some of them."""
    if product.depth > MAX_DEPTH or product.bias or product.activation:
        return False
    if isinstance(kernel, Nest):
        place = Index(0, dense_strides(kernel.sizes))
        loads = loads_of(kernel.exprs, product.buffer.name)
        return bool(loads) and kernel.total == product.total and all(load.index == place for load in loads)
    return not kernel.across and bool(each_width(product, kernel)) and reads_own_rows(product, kernel)


def each_width(product: Product, rows: Rows) -> int:
    """Return how many neighbouring elements of the product belong to a row of the kernel; 0 if no whole number."""
    lines = product.batch * product.rows
    if rows.count == 0 or rows.count % lines or product.total % rows.count:
        return 0
    return product.total // rows.count


def reads_own_rows(product: Product, rows: Rows) -> bool:
    """Whether each row of a row kernel reads its own neighbouring elements of the product."""
    width = each_width(product, rows)
    found = [
        (one.rows, one.columns, load.index) for one in rows.passes for load in loads_of(one.exprs, product.buffer.name)
    ]
    return bool(found) and all(
        row_steps(index, shape) == tuple(step * width for step in row_steps(Index(0, dense_strides(shape)), shape))
        and covers_all(index, shape + columns)
        for shape, columns, index in found
    )


def row_steps(index: Index, rows: Shape) -> tuple[int, ...]:
    """Return the steps along the dimensions of a row that count."""
    return tuple(step for step, size in zip(index.strides, rows, strict=False) if size != 1)
