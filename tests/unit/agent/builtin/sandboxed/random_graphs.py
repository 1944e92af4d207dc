# ruff: noqa: B008 - what is drawn for a step is drawn once, when the step is made
"""Draws operators of the two families: odd sizes, strides, dimensions, dtypes and order of operations.

Runs with the sandbox's Python.
"""

import random

import torch
import torch.nn as nn
import torch.nn.functional as F

UNARY = [
    torch.relu,
    torch.sigmoid,
    torch.tanh,
    F.gelu,
    F.silu,
    torch.abs,
    torch.neg,
    lambda x: torch.exp(-x.abs()),
    lambda x: torch.clamp(x, -1.0, 1.5),
    lambda x: torch.sqrt(x.abs() + 0.5),
    lambda x: x * 0.7 + 1.3,
    lambda x: x**2,
    F.softplus,
    F.elu,
    lambda x: torch.where(x > 0.1, x, x * 0.2),
]
BINARY = [torch.add, torch.sub, torch.mul, torch.maximum, torch.minimum, lambda a, b: a / (b.abs() + 1)]


class Drawn(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def forward(self, x, *others):
        for step in self.steps:
            x = step(x, others)
        return x


def draw(seed):
    """A module and a function that draws its inputs."""
    rng = random.Random(seed)
    family = _diagonal if seed % 3 == 0 else _pointwise
    return family(rng)


def _size(rng):
    return rng.choice([1, 2, 3, 5, 7, 8, 13, 16, 31, 33, 64, 67])


def _strided(rng, shape, dtype):
    """A tensor of the shape: contiguous, transposed, sliced or expanded."""
    kind = rng.choice(["plain", "plain", "transposed", "sliced", "expanded"])
    if kind == "transposed" and len(shape) > 1:
        order = list(range(len(shape)))
        rng.shuffle(order)
        whole = torch.randn([shape[k] for k in order]).to(dtype)
        return whole.permute([order.index(k) for k in range(len(shape))])
    if kind == "sliced":
        return torch.randn([size * 2 + 1 for size in shape]).to(dtype)[tuple(slice(1, None, 2) for _ in shape)]
    if kind == "expanded":
        thin = [1 if rng.random() < 0.4 else size for size in shape]
        return torch.randn(thin).to(dtype).expand(shape)
    return torch.randn(shape).to(dtype)


def _other(rng, shape, dtype):
    """A tensor that broadcasts to the shape."""
    thin = [1 if rng.random() < 0.3 else size for size in shape]
    return _strided(rng, thin[rng.randint(0, len(thin) - 1) :], dtype)


def _dtype(rng):
    return rng.choice([torch.float32, torch.float32, torch.float32, torch.float64, torch.float16, torch.bfloat16])


def _move(rng, shape):
    """A view and the shape that it leaves."""
    if len(shape) > 1 and rng.random() < 0.7:
        a, b = rng.sample(range(len(shape)), 2)
        moved = list(shape)
        moved[a], moved[b] = moved[b], moved[a]
        return (lambda x, _: x.transpose(a, b)), moved
    if shape[-1] > 3:
        return (lambda x, _: x[..., 1:-1]), [*shape[:-1], shape[-1] - 2]
    return (lambda x, _: x.flip(0)), shape


def _pointwise(rng):
    shape = [_size(rng) for _ in range(rng.randint(1, 4))]
    dtype = _dtype(rng)
    inputs = [_strided(rng, shape, dtype)]
    return Drawn(_steps(rng, shape, dtype, inputs)), inputs


def _steps(rng, shape, dtype, inputs):
    steps = []
    for _ in range(rng.randint(2, 6)):
        kind = rng.random()
        if kind < 0.4:
            steps.append(lambda x, _, f=rng.choice(UNARY): f(x))
        elif kind < 0.75:
            other = rng.choice([dtype, dtype, torch.float32])
            inputs.append(_other(rng, shape, other))
            place, function = len(inputs) - 2, rng.choice(BINARY)
            steps.append(lambda x, others, f=function, k=place: f(x, others[k]))
        else:
            step, shape = _move(rng, shape)
            steps.append(step)
    return steps


def _diagonal(rng):
    rows, columns = _size(rng), _size(rng)
    dtype = _dtype(rng)
    left = rng.random() < 0.5
    lead = [rng.randint(1, 4)] if rng.random() < 0.4 else []
    inputs = [_strided(rng, [*lead, rows, columns], dtype), torch.randn(rows if left else columns).to(dtype)]
    product = (lambda x, others: torch.diag(others[0]) @ x) if left else (lambda x, others: x @ torch.diag(others[0]))
    before = [lambda x, _, f=rng.choice(UNARY): f(x)] if rng.random() < 0.5 else []
    after = _steps(rng, [*lead, rows, columns], dtype, inputs)[:3]
    return Drawn([*before, product, *after]), inputs


CASES = {f"drawn{seed}": draw(seed) for seed in range(20)}
