"""Random programs of views and writes: the traced graph has no mutation left, and still computes the same."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from graph_replay import analysis_of, replay

from cuda_agent_judge.operator import Operator, clone_inputs
from cuda_agent_judge.trees import flatten

Step = Callable[[torch.Tensor, random.Random], Any]


def some_dim(tensor: torch.Tensor, rng: random.Random) -> int:
    return rng.randrange(tensor.dim())


def shuffled(tensor: torch.Tensor, rng: random.Random) -> list[int]:
    return rng.sample(range(tensor.dim()), tensor.dim())


VIEWS: dict[str, Step] = {
    "narrow": lambda t, rng: t.narrow(some_dim(t, rng), 0, 1),
    "every second": lambda t, rng: t[(slice(None),) * some_dim(t, rng) + (slice(None, None, 2),)],
    "select": lambda t, rng: t.select(some_dim(t, rng), 0),
    "transpose": lambda t, rng: t.transpose(0, -1),
    "permute": lambda t, rng: t.permute(shuffled(t, rng)),
    "view": lambda t, rng: t.view(-1),
    "reshape": lambda t, rng: t.reshape(-1),
    "unsqueeze": lambda t, rng: t.unsqueeze(rng.randrange(t.dim() + 1)),
    "squeeze": lambda t, rng: t.squeeze(),
    "chunk": lambda t, rng: t.chunk(2, some_dim(t, rng)),
    "split": lambda t, rng: torch.split(t, 1, 0)[:3],
    "unbind": lambda t, rng: t.unbind(some_dim(t, rng))[:3],
    "diagonal": lambda t, rng: t.diagonal(),
    "as_strided": lambda t, rng: t.as_strided([2], [2], t.storage_offset()),
    "detach": lambda t, rng: t.detach(),
}
WRITES: dict[str, Step] = {
    "mul_": lambda t, rng: t.mul_(2),
    "fill_": lambda t, rng: t.fill_(rng.random()),
    "add_": lambda t, rng: t.add_(t.sum()),
    "masked": lambda t, rng: t.masked_fill_(t > 0.5, 0.25),
    # A mask without dimensions is read by Python: that graph holds for one input only.
    "indexed": lambda t, rng: t.__setitem__(t < 0, -1.0) if t.dim() else None,
    "copy_": lambda t, rng: t.copy_(t.flip(0).contiguous()),
    "t_": lambda t, rng: t.t_(),
}
STEPS: dict[str, Step] = {**VIEWS, **WRITES, "new": lambda t, rng: t * 1.5}


class RandomProgram(torch.nn.Module):
    """Applies random steps to random tensors of a growing pool; what a tensor does not allow is left out."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self.seed = seed

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> list[torch.Tensor]:
        rng = random.Random(self.seed)
        pool = [x, y, x + 1]
        for _ in range(rng.randint(4, 12)):
            step, tensor = rng.choice(list(STEPS)), rng.choice(pool)
            try:
                made = STEPS[step](tensor, rng)
            except (RuntimeError, IndexError, ValueError):
                continue
            pool += [leaf for leaf in flatten(made)[0] if isinstance(leaf, torch.Tensor) and step not in WRITES]
        return pool


@pytest.mark.parametrize(
    "seeds", [range(start, start + 50) for start in range(0, 200, 50)], ids=lambda r: f"from {r[0]}"
)
def test_a_random_program_is_recorded_right(tmp_path: Path, seeds: range) -> None:
    for seed in seeds:
        module = ModuleType("model")
        module.Model = RandomProgram  # type: ignore[attr-defined]
        module.get_init_inputs = lambda seed=seed: [seed]  # type: ignore[attr-defined]
        module.get_inputs = lambda: [torch.randn(4, 6), torch.randn(3, 4, 2)]  # type: ignore[attr-defined]
        operator = Operator(tmp_path, module)
        given = operator.get_inputs(7, "cpu")
        expected = flatten(operator.run(operator.make_model("cpu"), clone_inputs(given)))[0]
        analysis = json.loads(json.dumps(analysis_of(operator)))
        computed = replay(analysis, given, operator.make_model("cpu"))
        for index, (want, got) in enumerate(zip(expected, computed, strict=True)):
            assert torch.equal(want, got), f"program {seed}, tensor {index}"
        assert (analysis["notes"], analysis["data_dependent"]) == ([], False)
