"""Draws operators of the two families as the text of a model.py: odd sizes, strides, dimensions, dtypes and order.

Standard library only: the host writes the text into files, the sandbox's Python runs it.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Family = Literal["pointwise", "diagonal", "reduction", "norm", "loss", "linear sum", "gemm"]
SMALL = (1, 2, 3, 5, 7, 8, 13, 16, 31, 33, 64, 67)
SIDES = (257, 384, 513, 777, 1023)
"""Sides of the matrices of large products."""
UNARY = (
    "torch.relu({x})",
    "torch.sigmoid({x})",
    "torch.tanh({x})",
    "F.gelu({x})",
    "F.silu({x})",
    "torch.abs({x})",
    "-{x}",
    "torch.exp(-{x}.abs())",
    "torch.clamp({x}, -1.0, 1.5)",
    "torch.sqrt({x}.abs() + 0.5)",
    "{x} * 0.7 + 1.3",
    "{x} ** 2",
    "F.softplus({x})",
    "F.elu({x})",
    "torch.where({x} > 0.1, {x}, {x} * 0.2)",
)
BINARY = (
    "{x} + {y}",
    "{x} - {y}",
    "{x} * {y}",
    "torch.maximum({x}, {y})",
    "torch.minimum({x}, {y})",
    "{x} / ({y}.abs() + 1)",
)
DTYPES = ("float32", "float32", "float32", "float64", "float16", "bfloat16")


@dataclass(frozen=True)
class Drawn:
    """One operator."""

    seed: int
    family: Family
    steps: tuple[str, ...]
    """The right-hand sides of forward's lines."""
    inputs: tuple[str, ...]
    """The expressions of get_inputs()."""
    shape: tuple[int, ...]
    """Of the first input."""
    dtype: str

    @property
    def source(self) -> str:
        """The text of its model.py."""
        names = ["x", *(f"t{number}" for number in range(1, len(self.inputs)))]
        lines = [
            f'"""Drawn operator {self.seed}: {self.family}."""\n',
            "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n",
            f"class Model(nn.Module):\n    def forward(self, {', '.join(names)}):",
            *(f"        x = {step}" for step in self.steps),
            "        return x\n\n",
            "def get_inputs():\n    return [",
            *(f"        {expression}," for expression in self.inputs),
            "    ]\n\n\ndef get_init_inputs():\n    return []\n",
        ]
        return "\n".join(lines)


def draw(seed: int, *, elements: int | None = None) -> Drawn:
    """Draw an operator: of tiny tensors, or of about `elements` elements in the first input."""
    return Pen(random.Random(seed), elements).drawn(seed)


class Pen:
    """Writes one operator, step by step."""

    def __init__(self, rng: random.Random, elements: int | None) -> None:
        self._rng = rng
        self._elements = elements
        self._dtype = rng.choice(DTYPES)
        self._inputs: list[str] = []
        self._steps: list[str] = []

    def drawn(self, seed: int) -> Drawn:
        family: Family = "diagonal" if seed % 3 == 0 else "pointwise"
        first = self._diagonal() if family == "diagonal" else self._pointwise()
        return Drawn(seed, family, tuple(self._steps), tuple(self._inputs), tuple(first), self._dtype)

    def _pointwise(self) -> list[int]:
        first = shape = self._shape(self._rng.randint(1, 4))
        self._inputs.append(self._strided(shape, self._dtype))
        self._unary()  # at least one step computes
        self._chain(shape, self._rng.randint(1, 5))
        return first

    def _diagonal(self) -> list[int]:
        rng = self._rng
        rows, columns = (rng.choice(SIDES if self._elements else SMALL) for _ in range(2))
        lead = [rng.randint(1, 4)] if rng.random() < 0.4 else []
        first = [*lead, rows, columns]
        left = rng.random() < 0.5
        self._inputs += [self._strided(first, self._dtype), _normal([rows if left else columns], self._dtype)]
        if rng.random() < 0.5:
            self._unary()
        self._steps.append("torch.diag(t1) @ x" if left else "x @ torch.diag(t1)")
        self._chain(first, rng.randint(0, 3))
        return first

    def _chain(self, shape: list[int], count: int) -> None:
        for _ in range(count):
            kind = self._rng.random()
            if kind < 0.4:
                self._unary()
            elif kind < 0.75:
                dtype = self._rng.choice([self._dtype, self._dtype, "float32"])
                self._inputs.append(self._broadcast(shape, dtype))
                self._steps.append(self._rng.choice(BINARY).format(x="x", y=f"t{len(self._inputs) - 1}"))
            else:
                shape = self._move(shape)

    def _unary(self) -> None:
        self._steps.append(self._rng.choice(UNARY).format(x="x"))

    def _move(self, shape: list[int]) -> list[int]:
        """Take a view; returns its shape."""
        if len(shape) > 1 and self._rng.random() < 0.7:
            a, b = self._rng.sample(range(len(shape)), 2)
            self._steps.append(f"x.transpose({a}, {b})")
            moved = list(shape)
            moved[a], moved[b] = moved[b], moved[a]
            return moved
        if shape[-1] > 3:
            self._steps.append("x[..., 1:-1]")
            return [*shape[:-1], shape[-1] - 2]
        self._steps.append("x.flip(0)")
        return shape

    def _shape(self, dimensions: int) -> list[int]:
        shape = [self._rng.choice(SMALL) for _ in range(dimensions)]
        if self._elements:
            place = self._rng.randrange(dimensions)
            rest = 1
            for number, size in enumerate(shape):
                if number != place:
                    rest *= size
            shape[place] = max(1, self._elements // rest | 1)
        return shape

    def _broadcast(self, shape: list[int], dtype: str) -> str:
        thin = [1 if self._rng.random() < 0.3 else size for size in shape]
        return self._strided(thin[self._rng.randint(0, len(thin) - 1) :], dtype)

    def _strided(self, shape: list[int], dtype: str) -> str:
        """An expression for a tensor of the shape: contiguous, transposed, sliced or expanded."""
        kind = self._rng.choice(["plain", "plain", "transposed", "sliced", "expanded"])
        if kind == "transposed" and len(shape) > 1:
            order = self._rng.sample(range(len(shape)), len(shape))
            back = [order.index(place) for place in range(len(shape))]
            return f"{_normal([shape[place] for place in order], dtype)}.permute({_list(back)})"
        if kind == "sliced":
            sliced = [self._rng.random() < 0.5 for _ in shape]
            sliced[-1] = sliced[-1] or not any(sliced)
            whole = [size * 2 + 1 if twice else size for size, twice in zip(shape, sliced, strict=True)]
            return f"{_normal(whole, dtype)}[{', '.join('1::2' if twice else ':' for twice in sliced)}]"
        if kind == "expanded":
            thin = [1 if self._rng.random() < 0.4 else size for size in shape]
            return f"{_normal(thin, dtype)}.expand({_list(shape)})"
        return _normal(shape, dtype)


def _normal(shape: Sequence[int], dtype: str) -> str:
    return f"torch.randn({_list(shape)})" + ("" if dtype == "float32" else f".to(torch.{dtype})")


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))
