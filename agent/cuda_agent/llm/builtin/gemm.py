"""Products of dense matrices as stages of their own, made by the vendor's library.

The library takes a matrix as it lies in memory, plain or transposed. An operand that is anything else (an expression of
several tensors, every second column) is written out first.
"""

from cuda_agent.llm.builtin.dense import depends
from cuda_agent.llm.builtin.dtypes import HALVES
from cuda_agent.llm.builtin.expr import Index, Load, Value
from cuda_agent.llm.builtin.graph import Shape, TensorSpec, dense_strides
from cuda_agent.llm.builtin.keep import Keys
from cuda_agent.llm.builtin.pointwise import convert
from cuda_agent.llm.builtin.stage import Buffer, Matrix, Product, Stage, Step, Store
from cuda_agent.llm.builtin.views import slice_

MAX_INT = 2**31 - 1
"""The library counts rows, columns and distances in 32 bits."""


class Products:
    """Makes the products of one lowering; what it needs is appended to the lowering's stages."""

    def __init__(self, target: str, precision: str, stages: list[Step]) -> None:
        self._tf32 = target == "cuda" and precision != "ieee"
        self._halves = target == "cuda"
        self._stages = stages
        self._keys = Keys()
        self._written: dict[tuple[int, Shape], Matrix] = {}
        self._made: dict[tuple[Matrix, Matrix, Shape], Value] = {}

    def stored(self, dtype: str) -> str | None:
        """Return the dtype in which the library multiplies for a result of `dtype`; None where it does not."""
        if dtype in HALVES:
            return dtype if self._halves else "float32"
        return dtype if dtype in ("float32", "float64") else None

    def make(self, left: Value, right: Value) -> Value | None:
        """Return left[batch, m, k] @ right[batch, k, n], whose operands have one dtype.

        None where the library does not multiply such matrices.
        """
        stored = self.stored(left.dtype)
        (batch, rows, depth), columns = left.shape, right.shape[2]
        if stored is None or max(batch, rows, columns, depth) > MAX_INT or min(batch, rows, columns, depth) == 0:
            return None
        operands = self._operand(left, stored), self._operand(right, stored)
        if max(one.lead for one in operands) > MAX_INT:
            return None
        shape = (batch, rows, columns)
        if (*operands, shape) in self._made:
            return self._made[*operands, shape]
        spec = TensorSpec(f"r{len(self._stages)}", shape, dense_strides(shape), stored)
        self._stages.append(Product(Buffer(spec.id, spec), *operands, batch, rows, columns, depth, self._tf32))
        made = Value(shape, convert(Load(spec.id, stored, Index(0, spec.strides)), left.dtype))
        self._made[*operands, shape] = made
        return made

    def _operand(self, value: Value, stored: str) -> Matrix:
        value = Value(value.shape, convert(value.expr, stored))
        return matrix_of(value) or self._write(value)

    def _write(self, value: Value) -> Matrix:
        """Write an operand to memory; one that is the same in every batch only once."""
        if not depends(value.expr, 0):
            value = slice_(value, 0, 0, 1)
        key = self._keys.of(value.expr), value.shape
        if key not in self._written:
            strides = dense_strides(value.shape)
            spec = TensorSpec(f"t{len(self._stages)}", value.shape, strides, value.dtype)
            buffer = Buffer(spec.id, spec)
            self._stages.append(Stage(value.shape, (Store(buffer, value.expr),), strides))
            step = strides[0] if value.shape[0] > 1 else 0
            self._written[key] = Matrix(buffer, 0, False, strides[1], step)
        return self._written[key]


def matrix_of(value: Value) -> Matrix | None:
    """Return a value as a matrix that lies in memory; None where it does not, or not as the library reads one."""
    load = value.expr
    if not isinstance(load, Load):
        return None
    (batch, rows, columns), (step, down, across) = value.shape, load.index.strides
    step = step if batch > 1 else 0
    spec = TensorSpec(load.source, value.shape, load.index.strides, load.dtype)
    for flipped, lead, unit, lines, width in (
        (False, down, across, rows, columns),
        (True, across, down, columns, rows),
    ):
        if (unit == 1 or width == 1) and (lead >= width or lines == 1) and step >= 0:
            return Matrix(Buffer(load.source, spec), load.index.offset, flipped, max(lead, width), step)
    return None
