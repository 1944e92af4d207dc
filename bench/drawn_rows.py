"""Draws operators with reductions, norms, losses and sums over linear maps, as drawn_operators.py draws chains."""

import random

from bench.drawn_operators import UNARY, Drawn, Family, Pen

ROW_FAMILIES: tuple[Family, ...] = ("reduction", "norm", "loss", "linear sum")
REDUCTIONS = (
    "x.sum({d})",
    "x.mean({d}, keepdim=True)",
    "x.amax({d})",
    "x.amin({d}, keepdim=True)",
    "x.argmax({d})",
    "x.argmin({d})",
    "torch.logsumexp(x, {d})",
    "x.var({d}, correction=0)",
    "x.std({d}, keepdim=True, correction=0)",
    "torch.linalg.vector_norm(x, dim={d})",
    "x.sum()",
    "x.mean()",
    "x.max({d})[0]",
)
NORMS = (
    "F.softmax(x, {d})",
    "F.log_softmax(x, {d})",
    "F.layer_norm(x, x.shape[{d}:])",
    "F.normalize(x, dim={d})",
    "x * torch.rsqrt(x.pow(2).mean({d}, keepdim=True) + 1e-5)",
    "x - x.mean({d}, keepdim=True)",
    "x / (x.abs().amax({d}, keepdim=True) + 1)",
)
LOSSES = (
    "F.mse_loss(x, t1)",
    "F.l1_loss(x, t1)",
    "F.smooth_l1_loss(x, t1)",
    "F.huber_loss(x, t1, delta=0.7)",
    "F.kl_div(F.log_softmax(x, {d}), F.softmax(t1, {d}), reduction='sum')",
    "F.binary_cross_entropy_with_logits(x, torch.sigmoid(t1))",
    "(1 - F.cosine_similarity(x, t1, dim={d})).mean()",
    "F.cross_entropy(x, t1.argmax(1))",
    "torch.mean(torch.clamp(1 - x * t1, min=0))",
)
PULLED = ("F.linear(x, t1, t2).sum(-1)", "F.linear(x, t1).mean(-1, keepdim=True)", "(x @ t1.t() / 2 + t2).sum(-1)")


def draw_rows(seed: int, *, elements: int | None = None) -> Drawn:
    """Draw an operator of the families around reductions."""
    return RowPen(random.Random(seed + 7919), elements).drawn_rows(seed)


class RowPen(Pen):
    """Writes one operator of these families."""

    def drawn_rows(self, seed: int) -> Drawn:
        """Return the operator of a seed."""
        family = ROW_FAMILIES[seed % len(ROW_FAMILIES)]
        shape = self._shape(self._rng.randint(2, 4))
        self._inputs.append(self._strided(shape, self._dtype))
        if family == "linear sum":
            self._linear_sum(shape)
        else:
            if self._rng.random() < 0.6:
                self._unary()
            if self._rng.random() < 0.4 and family != "loss":
                shape = self._turned(shape)
            {"reduction": self._reduction, "norm": self._norm, "loss": self._loss}[family](shape)
        return Drawn(seed, family, tuple(self._steps), tuple(self._inputs), tuple(shape), self._dtype)

    def _turned(self, shape: list[int]) -> list[int]:
        a, b = self._rng.sample(range(len(shape)), 2)
        self._steps.append(f"x.transpose({a}, {b})")
        turned = list(shape)
        turned[a], turned[b] = turned[b], turned[a]
        return turned

    def _dim(self, shape: list[int]) -> int:
        return self._rng.randrange(len(shape))

    def _reduction(self, shape: list[int]) -> None:
        self._steps.append(self._rng.choice(REDUCTIONS).format(d=self._dim(shape)))
        if not self._steps[-1].startswith("x.arg") and self._rng.random() < 0.5:
            self._steps.append(self._rng.choice(UNARY).format(x="x"))

    def _norm(self, shape: list[int]) -> None:
        self._steps.append(self._rng.choice(NORMS).format(d=self._dim(shape)))
        if self._rng.random() < 0.5:
            self._chain(shape, 1)

    def _loss(self, shape: list[int]) -> None:
        self._inputs.append(self._strided(shape, self._dtype))
        self._steps.append(self._rng.choice(LOSSES).format(d=self._dim(shape)))

    def _linear_sum(self, shape: list[int]) -> None:
        out = self._rng.choice((3, 8, 31, 64))
        self._inputs.append(self._strided([out, shape[-1]], self._dtype))
        self._inputs.append(self._strided([out], self._dtype))
        self._steps.append(self._rng.choice(PULLED))
        if self._rng.random() < 0.5:
            self._steps.append(self._rng.choice(UNARY).format(x="x"))
