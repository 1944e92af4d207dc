"""Inputs and their answers, drawn and computed before a judgement asks for them: while a model thinks.

Each set is used once. Its seed is this process's own secret, as good as the judge's.
"""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from cuda_agent_judge import compare, expected
from cuda_agent_judge.battery import TIMED
from cuda_agent_judge.operator import OperatorFault
from cuda_agent_judge.standing import Standing

_LIMIT_BYTES = 768 << 20
"""Of all sets together."""


@dataclass(frozen=True)
class Answers:
    """What the reference answers to one set of inputs."""

    twins: list[torch.Tensor]
    """In its own precision."""
    wide: list[torch.Tensor] | None
    """In fp64, where that was asked for and works."""
    usable: bool = True
    """They say something about a submission."""
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True)
class Prepared:
    """One set with its answers."""

    variant: str
    drawn: torch.Tensor
    values: list[Any]
    answers: Answers


def answer(stands: Standing, variant: str) -> Answers:
    """Compute the twin and, but for timed calls, the wide reference of what was drawn last.

    Raises:
        OperatorFault: the operator fails on inputs of its own.
    """
    stands.runner.prepare(0, stands.drawn.values, now=True)
    wide_args: Any = None
    if variant != TIMED and stands.fits_wide:
        args, kwargs = stands.runner.arguments
        wide_args = expected.widen(kwargs or args)
    try:
        twins = [t.contiguous() for t in expected.tensors_of(stands.run())]
    except OperatorFault as error:
        if variant in ("native", TIMED):
            raise
        return Answers([], None, False, str(error))
    wide = stands.run_wide(wide_args, twins) if wide_args is not None else None
    if stands.aliases:
        twins = [t.clone() for t in twins]
    usable = variant in ("native", TIMED) or _is_meaningful(twins, wide)
    return Answers(twins, wide, usable)


def _is_meaningful(twins: list[torch.Tensor], wide: list[torch.Tensor] | None) -> bool:
    wide = wide or twins
    finite = all(bool(torch.isfinite(t).all()) for t in (*wide, *twins) if t.is_floating_point())
    errors = [compare.twin_error(w, t) for w, t in zip(wide, twins, strict=True)]
    return finite and all(error < compare.WELL_CONDITIONED for error in errors)


class Ahead:
    """Prepares the sets of the next judgement, in the order in which it will ask for them."""

    def __init__(self, stands: Standing, battery: Sequence[str], timed: int) -> None:
        self._stands = stands
        signed = stands.described["signed"]
        self._battery = [variant for variant in battery if variant == "native" or signed]
        self._timed = timed
        self._ready: dict[bool, list[Prepared]] = {False: [], True: []}

    def step(self) -> bool:
        """Prepare one set; False when there is nothing to do."""
        if not self._fits():
            return False  # as yet only where memory is no matter
        for timed, wanted in ((False, self._battery), (True, [TIMED] * self._timed)):
            there = len(self._ready[timed])
            if there < len(wanted):
                self._prepare(wanted[there], timed=timed)
                return True
        return False

    def take(self, variant: str) -> Prepared | None:
        """The next set of a kind, once; None where there is none."""
        ready = self._ready[variant == TIMED]
        if not ready:
            return None
        found = ready.pop(0)
        if found.variant != variant:
            ready.clear()  # a sparse set is only good behind the one it was made from
            return None
        self._stands.drawn.put(found.drawn, found.values)
        return found

    def drop_battery(self) -> None:
        """Forget the sets that are left of a battery that broke off."""
        self._ready[False].clear()

    def _prepare(self, variant: str, *, timed: bool) -> None:
        drawn = self._stands.drawn
        if variant == "sparse" and self._ready[timed]:
            drawn.put(self._ready[timed][-1].drawn, self._ready[timed][-1].values)
        with torch.no_grad():
            drawn.draw("native" if timed else variant, secrets.randbits(63))
            answers = answer(self._stands, variant)
        self._ready[timed].append(Prepared(variant, drawn.master.clone(), drawn.values, answers))

    def _fits(self) -> bool:
        inputs, outputs = self._stands.inputs.layout.size, self._stands.learnt.layout.size
        return len(self._battery) * (inputs + 3 * outputs) + self._timed * (inputs + outputs) < _LIMIT_BYTES
