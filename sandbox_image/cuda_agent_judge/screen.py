"""Looks at the reference alone: whether it is the same twice, and whether its result depends on its inputs."""

import dataclasses
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from cuda_agent_judge import drawing, expected
from cuda_agent_judge.operator import Device, Operator, OperatorFault, clone_inputs
from cuda_agent_judge.trees import flatten, unflatten

MAX_DRAWS = 16
DRAWS_S = 3.0
"""Seconds for more draws of inputs than two."""
_PIECE = 2**22
_WIDE = (torch.float64, torch.complex128)


@dataclass(frozen=True)
class Screening:
    """What the reference alone shows."""

    fault: str | None = None
    """One sentence: why it cannot be judged."""
    degenerate: str | None = None
    """One sentence: why a right result says nothing (a constant or the input itself passes)."""
    notes: tuple[str, ...] = ()


def screen(operator: Operator, device: Device, seed: int = 1) -> Screening:
    """Run the reference a few times and say what is wrong or remarkable; never raises for a faulty operator."""
    try:
        model = operator.make_model(device)
        given = operator.get_inputs(seed, device)
        mine = clone_inputs(given)
        first = _tensors(operator.run(model, mine))
        again = _tensors(operator.run(model, clone_inputs(given)))
        if len(first) != len(again) or not all(map(_steady, again, first)):
            return Screening(
                fault="forward in model.py gives different results for the same inputs: "
                "take out what is random or kept between calls"
            )
        notes = _notes(first, again)
        mutates = not _same(_tensors(given), _tensors(mine))
        if mutates:
            notes.append("the reference writes into its inputs; each side gets inputs of its own")
        look = _Look(operator, model, lambda seed: operator.get_inputs(seed, device), seed, given, first)
        return look.judge(notes, mutates)
    except OperatorFault as fault:
        return Screening(fault=str(fault))


def flip_signs(inputs: Any, seed: int) -> Any:
    """The inputs with random signs in place of their own, where they are floating-point tensors."""
    leaves, spec = flatten(inputs)

    def flip(leaf: Any, own_seed: int) -> Any:
        if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
            return leaf
        flipped = leaf.clone()
        drawing.flip_signs(flipped, own_seed)
        return flipped

    return unflatten([flip(leaf, seed + number) for number, leaf in enumerate(leaves)], spec)


def close(result: torch.Tensor, reference: torch.Tensor) -> bool:
    """Whether a result would pass for the reference: relative to the reference's own size, so that zeros do not."""
    if result.shape != reference.shape or result.dtype != reference.dtype:
        return False
    if not (reference.is_floating_point() or reference.is_complex()):
        return bool(torch.equal(result, reference))
    l2_limit, max_limit = (2e-2, 2e-1) if reference.dtype.itemsize < 4 else (1e-3, 1e-2)
    hopeless = 1.1 * l2_limit**2 * _rough_squares(reference)
    squares, error_squares, largest = 0.0, 0.0, 0.0
    # Piece by piece: the double-precision copies would be four times an output in size.
    for start in range(0, reference.numel(), _PIECE):
        right, left = (tensor.reshape(-1)[start : start + _PIECE] for tensor in (reference, result))
        finite = torch.isfinite(right)
        if error_squares > hopeless or not torch.equal(finite, torch.isfinite(left)):
            return False
        right = torch.where(finite, right, 0).to(_WIDE[reference.is_complex()])
        error = (torch.where(finite, left, 0) - right).abs()
        squares += float(right.abs().square().sum())
        error_squares += float(error.square().sum())
        largest = max(largest, float(error.max()) if error.numel() else 0.0)
    if squares == 0.0:
        return largest == 0.0
    return error_squares <= l2_limit**2 * squares and largest <= max_limit * (squares / reference.numel()) ** 0.5


def _rough_squares(tensor: torch.Tensor) -> float:
    """Sum of squares in single precision, only to stop early with; infinite where that would not do."""
    if tensor.is_complex():
        return math.inf
    norm = float(torch.linalg.vector_norm(tensor, dtype=torch.promote_types(tensor.dtype, torch.float32)))
    return norm**2 if norm > 1e-10 else math.inf


@dataclass(frozen=True)
class _Look:
    """Draws further inputs to see what the result depends on."""

    operator: Operator
    model: torch.nn.Module
    draw: Callable[[int], Any]
    """Inputs by seed."""
    seed: int
    given: Any
    first: list[torch.Tensor]

    def judge(self, notes: list[str], mutates: bool) -> Screening:
        tensors = _tensors(self.given)
        if not tensors:
            notes.append("forward takes no tensors: its result depends on the parameters alone")
            return Screening(notes=tuple(notes))
        other = self.draw(self.seed + 1)
        look = self
        if _same(tensors, _tensors(other)):
            notes.append("get_inputs() returns the same values whatever the seed; signs are changed instead")
            if not any(tensor.is_floating_point() for tensor in tensors):
                return Screening(notes=tuple(notes))
            look = dataclasses.replace(self, draw=lambda seed: flip_signs(self.given, seed))
        degenerate = look.degenerate(notes, mutates)
        return Screening(None, degenerate, tuple(notes))

    def degenerate(self, notes: list[str], mutates: bool) -> str | None:
        """Why the result says nothing, if so."""
        if all(bool(torch.isnan(out).all()) if out.is_floating_point() else False for out in self.first):
            return "every value of the result is NaN, so a constant passes"
        if self._always(self._like_first):
            if not self._hard_inputs_tell():
                return "the result does not depend on the inputs (a constant passes)"
            notes.append(drawing.HARDENED)
        if mutates or not self._always(_is_input):
            return None
        if _is_input(*self._run(flip_signs(self.given, self.seed))):
            return "the result is an input unchanged, so returning the input passes"
        notes.append("for the values that get_inputs() draws the result equals an input; signs tell them apart")
        return None

    def _hard_inputs_tell(self) -> bool:
        """Whether values at another scale in each draw give results that differ."""
        names, _ = expected.recorded(lambda: self._run(self.given))
        plain = [drawing.unstructured(tensor) for tensor in _tensors(self.given)]
        if not any(plain) or not drawing.may_be_signed(names):
            return False
        results = []
        for draw in range(2):
            inputs = clone_inputs(self.draw(self.seed + draw))
            for tensor, is_plain in zip(_tensors(inputs), plain, strict=True):
                if is_plain:
                    drawing.make_hard(tensor)
            results.append(self._run(inputs)[1])
        return not all(map(close, *results))

    def _always(self, holds: Callable[[Any, list[torch.Tensor]], bool]) -> bool:
        """Whether it holds for draw after draw; most operators differ at the first."""
        started = time.monotonic()
        for draw in range(1, MAX_DRAWS):
            if draw > 2 and time.monotonic() - started > DRAWS_S:
                break
            if not holds(*self._run(self.draw(self.seed + draw))):
                return False
        return True

    def _run(self, inputs: Any) -> tuple[Any, list[torch.Tensor]]:
        return inputs, _tensors(self.operator.run(self.model, clone_inputs(inputs)))

    def _like_first(self, inputs: Any, outputs: list[torch.Tensor]) -> bool:
        return len(outputs) == len(self.first) and all(map(close, outputs, self.first))


def _tensors(tree: Any) -> list[torch.Tensor]:
    return [leaf.detach() for leaf in flatten(tree)[0] if isinstance(leaf, torch.Tensor)]


def _same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(map(_equal, left, right))


def _equal(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Bit for bit, but any NaN equals any NaN."""
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    return bool(((left == right) | ((left != left) & (right != right))).all())


def _steady(again: torch.Tensor, first: torch.Tensor) -> bool:
    """The same but for the order of additions in parallel sums."""
    return _equal(again, first) or (first.is_floating_point() and close(again, first))


def _is_input(inputs: Any, outputs: list[torch.Tensor]) -> bool:
    return all(any(_equal(out, tensor) for tensor in _tensors(inputs)) for out in outputs)


def _notes(first: list[torch.Tensor], again: list[torch.Tensor]) -> list[str]:
    notes = []
    if not _same(first, again):
        notes.append("the reference differs in its last digits from call to call")
    floats = [out for out in first if out.is_floating_point() and out.numel()]
    if bad := sum(int((~torch.isfinite(out)).sum()) for out in floats):
        notes.append(f"{bad} of {sum(out.numel() for out in floats)} values of the result are NaN or infinite")
    return notes
