"""What lowering leaves: steps over index spaces, each element an expression; nothing here says how loops run."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from cuda_agent.llm.builtin.expr import Expr
from cuda_agent.llm.builtin.graph import Shape, TensorSpec

ReduceFn = Literal["sum", "prod", "max", "min"]


@dataclass(frozen=True)
class Buffer:
    """A tensor that a kernel reads or writes."""

    name: str
    spec: TensorSpec


@dataclass(frozen=True)
class Store:
    """One result of a stage."""

    buffer: Buffer
    expr: Expr


@dataclass(frozen=True)
class Stage:
    """Pointwise: every store runs over the same index space."""

    shape: Shape
    stores: tuple[Store, ...]
    strides: tuple[int, ...]
    """Where an element of that space lies in each store's buffer."""


@dataclass(frozen=True)
class Reduce:
    """One number for each index of `outer`, of all elements over `inner`."""

    outer: Shape
    inner: Shape
    fn: ReduceFn
    body: Expr
    """Over outer + inner."""
    buffer: Buffer
    """Row-major over `outer`; it exists in memory only where another kernel reads it."""


@dataclass(frozen=True)
class Matrix:
    """A matrix for each batch, as it lies in a buffer: its columns, or (flipped) its rows, are next to each other."""

    buffer: Buffer
    offset: int
    flipped: bool
    lead: int
    """Elements from one row to the next; flipped: from one column to the next."""
    step: int
    """Elements from one batch to the next; 0: every batch has the same matrix."""


Activation = Literal["relu", "gelu_tanh"]


@dataclass(frozen=True)
class Product:
    """out[batch] = alpha * left[batch] @ right[batch], made by the vendor's library; it is a kernel of its own."""

    buffer: Buffer
    """Row-major over batch, rows and columns."""
    left: Matrix
    right: Matrix
    batch: int
    rows: int
    columns: int
    depth: int
    tf32: bool = False
    """Single precision may be rounded to TF32 before it is multiplied."""
    alpha: float = 1.0
    bias: Matrix | None = None
    """One row that the library adds to each row of the product."""
    activation: Activation | None = None
    """What the library does last."""

    @property
    def total(self) -> int:
        """Elements of the product."""
        return self.batch * self.rows * self.columns

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.total * self.depth

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """What it reads, each buffer once."""
        operands = [self.left, self.right, *([self.bias] if self.bias else [])]
        return tuple({one.buffer.name: one.buffer for one in operands}.values())

    @property
    def outputs(self) -> tuple[Buffer, ...]:
        """What it writes."""
        return (self.buffer,)


Step = Stage | Reduce | Product


@dataclass(frozen=True)
class Plan:
    """What is to be written: stages in order, and where each returned tensor comes from."""

    stages: tuple[Step, ...]
    inputs: Mapping[str, Buffer]
    """By the id of an input, a parameter or a buffer of the module: what the kernels read."""
    results: Mapping[str, str]
    """By the id that an output refers to: the name of the buffer."""
    products: int
    """How many matrix products became a scaling."""
    operations: int
    dense: frozenset[str]
    """The buffers of products of two dense matrices that neither a row kernel nor the library should compute."""
