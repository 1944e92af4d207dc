"""Draws operators around products of two dense matrices, as drawn_operators.py draws chains."""

import random

from bench.drawn_operators import SIDES, UNARY, Drawn, Pen
from bench.drawn_rows import NORMS, REDUCTIONS

DEPTHS = (5, 8, 16, 31, 33, 64)
COLUMNS = (5, 7, 8, 13, 16, 33, 64)


def draw_products(seed: int, *, elements: int | None = None) -> Drawn:
    """Draw an operator with one product or two, and what comes before and behind them."""
    return ProductPen(random.Random(seed + 104729), elements).drawn_products(seed)


class ProductPen(Pen):
    """Writes one operator of this family."""

    def drawn_products(self, seed: int) -> Drawn:
        """Return the operator of a seed."""
        rng = self._rng
        lead = [rng.randint(2, 5)] if rng.random() < 0.5 else []
        depth = rng.choice(DEPTHS)
        rows = max(5, self._elements // (depth * (lead or [1])[0])) if self._elements else rng.choice(COLUMNS)
        first = [*lead, rows, depth]
        self._inputs.append(self._strided(first, self._dtype))
        if rng.random() < 0.3:
            self._unary()
        shape = self._product(first)
        if rng.random() < 0.4:
            self._unary()
            shape = self._product(shape)
        self._chain(shape, rng.randint(0, 3))
        self._end()
        return Drawn(seed, "gemm", tuple(self._steps), tuple(self._inputs), tuple(first), self._dtype)

    def _product(self, shape: list[int]) -> list[int]:
        rng, number = self._rng, len(self._inputs)
        columns = rng.choice(SIDES if self._elements and rng.random() < 0.5 else COLUMNS)
        depth = shape[-1]
        kind = rng.choice(["linear", "bias", "plain", "flipped", *(["batched"] if len(shape) == 3 else ["added"])])
        weight = {"linear": [columns, depth], "bias": [columns, depth], "batched": [shape[0], depth, columns]}
        self._inputs.append(self._strided(weight.get(kind, [depth, columns]), self._dtype))
        if kind in ("bias", "added"):
            self._inputs.append(self._strided([columns], self._dtype))
        call = {
            "linear": f"F.linear(x, t{number})",
            "bias": f"F.linear(x, t{number}, t{number + 1})",
            "added": f"torch.addmm(t{number + 1}, x, t{number}, beta=0.5)",
            "flipped": f"(t{number}.t() @ x.transpose(-1, -2)).transpose(-1, -2)",
        }.get(kind, f"x @ t{number}")
        self._steps.append(f"{call} * {rng.choice(('1.0', '0.25', '-0.5'))}")
        return [*shape[:-1], columns]

    def _end(self) -> None:
        kind = self._rng.random()
        if kind < 0.35:
            self._unary()
        elif kind < 0.6:
            self._steps.append(self._rng.choice([step for step in NORMS if "layer_norm" not in step]).format(d=-1))
        elif kind < 0.8:
            reduction = self._rng.choice([step for step in REDUCTIONS if "arg" not in step])
            self._steps.append(f"({self._rng.choice(UNARY).format(x='x')})")
            self._steps.append(reduction.format(d=-1))
