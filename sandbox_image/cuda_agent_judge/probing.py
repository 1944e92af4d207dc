"""How the throughput probe is carried out: a few runs of each side, in turns; probe.py says what they mean."""

import time
from typing import Protocol

from cuda_agent_judge import probe
from cuda_agent_judge.probe import Probe, run_of
from cuda_agent_judge.scoring import SUBMISSION, Measured
from cuda_agent_judge.statistics import median

NOTHING = "null"


class Rows(Protocol):
    """Whoever has calls made, and holds the clock: the Timer."""

    def in_a_row(self, side: str, calls: int) -> tuple[int, int]:
        """Wall time, beside the spin and the protocol, and time to enqueue so many calls, in ns."""

    def lengthen_spin(self, spin_us: int) -> int:
        """Spin for so long from now on; returns how long that really is, in ns."""


class Prober:
    """Has runs made of the submission, of the headline baseline and of nothing."""

    def __init__(self, rows: Rows, found: Measured, *, on_gpu: bool) -> None:
        self._rows = rows
        self._found = found
        self._sides = (found.headline, SUBMISSION)
        enqueue = {side: self._typical_enqueue(side) if on_gpu else 0.0 for side in self._sides}
        self._calls = {side: self._number(side, enqueue[side]) for side in self._sides}
        spin_us = max(probe.spin_for(self._calls[side], enqueue[side]) for side in self._sides)
        self._spin_ns = rows.lengthen_spin(spin_us) if on_gpu else 0
        self._walls: dict[str, list[tuple[int, int]]] = {side: [] for side in self._sides}
        self._nothing: dict[str, list[int]] = {side: [] for side in self._sides}

    def run(self, least: int) -> None:
        """Add both probes, of at least so many runs where there is time, to what was measured."""
        end = time.monotonic() + probe.LIMIT_S
        for number in range(probe.MOST_RUNS):
            late = number >= probe.LEAST_RUNS and time.monotonic() > end
            if late or (number >= least and not self._found.claims_are_below()):
                break
            for side in self._sides:
                if self._spin_ns:
                    self._nothing[side].append(self._rows.in_a_row(NOTHING, self._calls[side])[0])
                self._walls[side].append(self._rows.in_a_row(side, self._calls[side]))
            self._found.probes = {side: self._probe(side) for side in self._sides}

    def _probe(self, side: str) -> Probe:
        calls, nothing = self._calls[side], max(min(self._nothing[side], default=0), 0)
        return Probe(
            calls,
            tuple(
                run_of(wall, calls, enqueue_ns=enqueue, spin_ns=self._spin_ns, nothing_ns=nothing)
                for wall, enqueue in self._walls[side]
            ),
        )

    def _typical_enqueue(self, side: str) -> float:
        return median([call.enqueue_ns for call in self._found.calls[side]])

    def _number(self, side: str, enqueue_ns: float) -> int:
        its = self._found.calls[side]
        own = median([call.own_ns for call in its])
        return probe.calls_for(median([call.claim_ns for call in its]), own, enqueue_ns)
