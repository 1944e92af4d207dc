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
class Plan:
    """What is to be written: stages in order, and where each returned tensor comes from."""

    stages: tuple[Stage | Reduce, ...]
    inputs: Mapping[str, Buffer]
    """By the id of an input, a parameter or a buffer of the module: what the kernels read."""
    results: Mapping[str, str]
    """By the id that an output refers to: the name of the buffer."""
    products: int
    """How many matrix products became a scaling."""
    operations: int
    dense: frozenset[str]
    """The buffers of products of two dense matrices that a row kernel should not compute."""
