"""How the throughput probe is carried out: a few runs of each side, in turns; probe.py says what they mean."""

import time
from typing import Protocol

from cuda_agent_judge import probe
from cuda_agent_judge.probe import Probe, Run, run_of
from cuda_agent_judge.scoring import SUBMISSION, Measured
from cuda_agent_judge.statistics import median


class Rows(Protocol):
    """Whoever has calls made, and holds the clock: the Timer."""

    def in_a_row(self, side: str, calls: int) -> tuple[int, int]:
        """Wall time, beside the spin and the protocol, and time to enqueue so many calls, in ns."""

    def lengthen_spin(self, spin_us: int) -> int:
        """Spin for so long from now on; returns how long that really is, in ns."""


def run_probe(rows: Rows, found: Measured, *, on_gpu: bool) -> None:
    """Add the probe of the submission and of the headline baseline to what was measured."""
    sides = (found.headline, SUBMISSION)
    enqueue = {side: median([call.enqueue_ns for call in found.calls[side]]) if on_gpu else 0.0 for side in sides}
    calls = {side: _calls(found, side, enqueue[side]) for side in sides}
    spin_ns = rows.lengthen_spin(max(probe.spin_for(calls[side], enqueue[side]) for side in sides)) if on_gpu else 0
    runs: dict[str, list[Run]] = {side: [] for side in sides}
    end = time.monotonic() + probe.LIMIT_S
    for number in range(probe.RUNS):
        if number >= probe.LEAST_RUNS and time.monotonic() > end:
            break
        for side in sides:
            wall, enqueued = rows.in_a_row(side, calls[side])
            runs[side].append(run_of(wall, calls[side], enqueue_ns=enqueued, spin_ns=spin_ns))
    found.probes = {side: Probe(calls[side], tuple(runs[side])) for side in sides}


def _calls(found: Measured, side: str, enqueue_ns: float) -> int:
    its = found.calls[side]
    return probe.calls_for(median([call.claim_ns for call in its]), median([call.own_ns for call in its]), enqueue_ns)
