"""What the reference worker makes once of an operator: model, layouts of inputs and outputs, baselines.

None of it depends on a submission, so that it may serve one judgement after another.
"""

import base64
import io
import itertools
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from cuda_agent_judge import buffers, compare, contract, drawing, expected, operator, trees
from cuda_agent_judge.analyze import describe_environment
from cuda_agent_judge.baselines import Baselines
from cuda_agent_judge.cudart import Cudart
from cuda_agent_judge.defences import ALL, Defences
from cuda_agent_judge.drawn import Drawn
from cuda_agent_judge.machine_cache import MachineCache
from cuda_agent_judge.phases import Phases
from cuda_agent_judge.precision import apply_precision
from cuda_agent_judge.runner import Runner
from cuda_agent_judge.session import Session
from cuda_agent_judge.steps import Steps

_FURTHER, _FURTHER_S = 14, 3.0
"""Draws, and seconds for them, after two answers that are alike."""
_HARD_DRAWS = 4
_KEPT_BYTES = 1 << 30
_HELD_SHARE = 64
"""Several private input sets are kept where one takes at most this fraction of the memory."""


@dataclass(frozen=True)
class Learnt:
    """What the first runs of an operator show."""

    form: dict[str, Any]
    """Its output's, as contract.py describes it."""
    layout: buffers.Layout
    """Of the landing area."""
    names: list[str]
    """Where each output stands in the output tree."""
    written: list[bool]
    """Which inputs it writes to."""
    survives_signs: bool
    """It may be given inputs of both signs."""
    answer: list[torch.Tensor]
    """The first elements of its first answer."""


class Standing:
    """An operator that was loaded and run."""

    def __init__(
        self,
        session: Session,
        seed: int,
        phases: Phases,
        defences: Defences = ALL,
        steps: Steps | None = None,
        cache: MachineCache | None = None,
    ) -> None:
        """Bring it up; `phases` takes the seconds, and the operator's code runs in `steps`.

        Raises:
            OperatorFault: the operator cannot be judged.
        """
        device = session.target
        self.session = session
        self.cudart: Cudart | None = None
        with phases.stage("context"):
            if device == "cuda":
                torch.cuda.init()  # type: ignore[no-untyped-call]
                self.cudart = Cudart()
                self.cudart.synchronize()
            apply_precision(session.effective_precision)
        with phases.stage("operator"):
            self.operator = loaded = operator.load(session.operator_dir, steps)
            self.model = loaded.make_model(device, seed)
        with phases.stage("draw"):
            self.drawn = Drawn(lambda seed: loaded.get_inputs(seed, device), seed, self.cudart)
            expected.calibrate_norms(self.model, self.drawn.take_first())
        self.inputs = self.drawn.form
        self.sets = 3 if self._takes_less_than(_HELD_SHARE, self.inputs.layout.size) else 1
        with phases.stage("first run"):
            self.runner = Runner(self.inputs, self.drawn.master, self.cudart, self.sets)
            self.learnt = self._learn()
        with phases.stage("second draw"):
            self.drawn.see_if_fixed(seed ^ 1)
            self._signed = self.learnt.survives_signs and self.drawn.may_be_signed
            if self._signed:
                self._harden(seed)
        self.state = dict(_state_tensors(self.model))
        self.baselines = Baselines(self.model, self.runner, session, lambda: self.drawn.values, defences.slower, cache)
        self.described = self._describe()
        self._wide_model: torch.nn.Module | None = None
        self._has_memory = True

    def take_memory(self) -> None:
        """Have room for inputs, for the length of a judgement."""
        if not self._has_memory:
            self.drawn.take_memory()
            self.runner.take_memory(self.drawn.master)
            self._has_memory = True

    def give_memory(self) -> None:
        """Let the room for inputs go: others need the GPU between two judgements."""
        if self.cudart is not None:
            self.runner.give_memory()
            self.drawn.give_memory()
            self._has_memory = False
            self._wide_model = None

    def trim(self) -> None:
        """Give back what PyTorch keeps of freed device memory, where that is much."""
        if self.cudart is None:
            return
        if torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > _KEPT_BYTES:
            torch.cuda.empty_cache()

    @property
    def aliases(self) -> bool:
        """Whether an output shares memory with an input."""
        return any(leaf.get("aliases") for leaf in self.learnt.form["leaves"])

    @property
    def fits_wide(self) -> bool:
        """Whether an fp64 run is worth trying."""
        return expected.fits_wide(self.inputs.layout.size + self.learnt.layout.size, self.session.target)

    def run(self) -> Any:
        """Run the model on what the runner was prepared with."""
        args, kwargs = self.runner.arguments
        return self.operator.run(self.model, kwargs or args)

    def run_wide(self, args: Any, twins: list[torch.Tensor]) -> list[torch.Tensor] | None:
        """The fp64 answer to inputs in fp64, or None where there is none."""
        if self._wide_model is None:
            self._wide_model = expected.make_wide(self.model)
        model = self._wide_model
        wide = expected.run_wide(lambda given: operator.call(model, given), args, twins)
        return None if wide is None else [t.contiguous() for t in wide]

    def _takes_less_than(self, share: int, size: int) -> bool:
        if self.cudart is None:
            return size * share < 64 << 30
        return size * share < torch.cuda.get_device_properties(0).total_memory

    def _learn(self) -> Learnt:
        """Run twice: the output's form, which inputs are written to, and whether the operator is deterministic."""
        before = buffers.checksums(self.inputs.layout, self.drawn.master)
        self.runner.prepare(0, self.drawn.values, now=True)
        operations, output = expected.recorded(self.run)
        after = [buffers.checksum(raw) for raw in self.runner.private]
        borrowed = {"inputs": self.runner.private, "weights": [t for _, t in _state_tensors(self.model)]}
        form = contract.describe(output, borrowed)
        first = [t.clone() for t in expected.tensors_of(output)]
        names = _names(output)
        self.runner.prepare(0, self.drawn.values, now=True)
        second = expected.tensors_of(self.run())
        if not all(compare.compare(name, b, a, a).ok for name, a, b in zip(names, first, second, strict=True)):
            raise operator.OperatorFault(
                f"forward in {operator.FILE} gives different results on the same inputs; "
                "an operator must be deterministic to be judged"
            )
        return Learnt(
            form,
            buffers.layout(first, dense=True),
            names,
            [a != b for a, b in zip(before, after, strict=True)],
            drawing.may_be_signed(operations),
            expected.heads(first),
        )

    def answers(self, seed: int) -> Iterator[list[torch.Tensor]]:
        """Heads of answers to further native inputs."""
        end = time.monotonic() + _FURTHER_S
        for number in range(_FURTHER):
            if time.monotonic() > end:
                return
            self.drawn.draw("native", seed ^ number)
            self.runner.prepare(0, self.drawn.values, now=True)
            yield expected.heads(expected.tensors_of(self.run()))

    def _harden(self, seed: int) -> None:
        """Draw hard values from now on where all native ones give the same answer, and those do not."""
        if not expected.degenerate(self.learnt.answer, self.answers(seed), has_inputs=True):
            return
        self.drawn.hardened = True
        first, *later = itertools.islice(self.answers(seed), _HARD_DRAWS)
        if not later or expected.degenerate(first, later, has_inputs=True):
            self.drawn.hardened = False

    def _describe(self) -> dict[str, Any]:
        return {
            "inputs": self.inputs.to_json(),
            "sets": self.sets,
            "form": self.learnt.form,
            "landing": self.learnt.layout.to_json(),
            "environment": describe_environment(self.session.target),
            "init": packed(self.operator.init_inputs()),
            "signed": self._signed,
            "hardened": self.drawn.hardened,
            "aliasing": self.aliases,
            "writes": any(self.learnt.written),
        }


def _names(output: Any) -> list[str]:
    leaves = trees.flatten(output)[0]
    paths = trees.paths(output)
    return [".".join(map(str, p)) for p, leaf in zip(paths, leaves, strict=True) if isinstance(leaf, torch.Tensor)]


def _state_tensors(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, value) for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)]


def packed(value: Any) -> str:
    """Pickle for the candidate worker: the one direction in which that is safe."""
    out = io.BytesIO()
    try:
        torch.save(value, out)
    except Exception as error:
        raise operator.OperatorFault(
            f"an input of {operator.FILE} that is no tensor cannot be handed to another process "
            f"({type(error).__name__}); use numbers, strings, lists, dicts and tensors"
        ) from error
    return base64.b64encode(out.getvalue()).decode()
