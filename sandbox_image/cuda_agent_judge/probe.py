"""The throughput probe: calls queued back to back, timed by the judge's own clock, as a floor for honest claims.

One wall time holds the protocol beside the call: messages, waking, a switch between contexts. On a loaded machine they
come to more than a short call, and an honest claim of 40 us looks as doubtful as a forged one. Over K calls of some
milliseconds they vanish: K calls in one order, behind one spin, cost the protocol once.

What a run measures: (the judge's wall - spin - what the protocol costs - K flushes of the cache) / K, the flushes as a
row of calls that do nothing shows them in the reference worker. That is what a call takes alone, its cache flushed. An
honest claim is not below it, with these exceptions, each of which speaks for the submission:

- Launch-bound operators. Where the host takes longer to enqueue a call than the device to run it, a run shows the
  host. So the spin lasts longer than it takes to enqueue all K, and the device has them all before it starts. Where
  the host, out of a core, was still enqueuing when nearly all of the work behind the spin was done, the run tells
  nothing (`starved`; earlier it may just have waited for a device that takes no more in line). The worker itself says
  how long it enqueued: one that lies loses the probe and with it what the probe can do for it, since then the judge's
  clock for single calls decides alone.
- Load. What else runs makes a run longer and never shorter: of several runs the shortest counts, and while that does
  not bear the claims out, there are more of them.
- The machine. Clocks may sink under work without a pause. The headline baseline goes through the same probe in the
  reference worker, which has no reason to lie: by as much as its runs exceed its claims, the submission's runs may
  exceed its own (`relation`). Where that is very much, the probe tells nothing here.

A run can be cheated by whoever rewrites the judge's modules in its process: it knows that K calls on the same inputs
are asked for, and only the last output is checked. So the probe never overrules the judge's clock for single calls in
the submission's favour where even the fastest of these contradict the claims: then the clock counts, and a verdict
that rests on it alone says `inconclusive` and not `slower`. What load does to some calls it does bear: claims stand
where the fastest quarter of the calls agrees. Those of the other calls are not believed below that quarter's.

Functions here are pure: times in ns, `apart` is the judge's span of a call less its claim.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from cuda_agent_judge import idle
from cuda_agent_judge.statistics import median, quantile

TARGET_NS = 8_000_000
"""A run lasts about so long where the claims are true."""
MOST_NS = 200_000_000
"""It lasts no longer than this by the judge's clock for single calls, whatever is claimed."""
LEAST_CALLS, MOST_CALLS = 2, 200
LEAST_SPIN_US, MOST_SPIN_US = 300, 20_000
SPIN_FACTOR = 1.5
"""How much longer the spin lasts than enqueuing is known to take."""
MOST_RUNS = 20
"""Of each side, while the shortest does not bear the claims out."""
LIMIT_S = 3.0
"""After so long no further run is begun, but for the least number."""
LEAST_RUNS = 3
SLACK_NS = 20_000
"""Of a claim for the judge's clock for single calls; for the probe, of a whole run."""
SLACK_SHARE = 0.03
_RESOLUTION_NS = 2_000
"""About what launches are apart: so far a call between two events and one in a row may differ."""
_MOST_RELATION = 1.5
_LATE = 0.9
"""The share of the time behind the spin after which a host that enqueues has kept the device waiting."""
TAMPER_FACTOR = 2.0
FASTEST = 0.25
"""The share of the calls that load is taken to spare."""


def calls_for(claim_ns: float, own_ns: float, enqueue_ns: float) -> int:
    """How many calls a run has: some milliseconds, bounded by the judge's clock and by what a spin can cover."""
    wanted = TARGET_NS / max(claim_ns, 1.0)
    within = MOST_NS / max(own_ns, 1.0)
    covered = 1000 * MOST_SPIN_US / (SPIN_FACTOR * max(enqueue_ns, 1.0))
    return int(min(max(math.ceil(min(wanted, within, covered)), LEAST_CALLS), MOST_CALLS))


def spin_for(calls: int, enqueue_ns: float) -> int:
    """How long the spin is to last, in us."""
    return min(max(int(SPIN_FACTOR * calls * enqueue_ns / 1000), LEAST_SPIN_US), MOST_SPIN_US)


@dataclass(frozen=True)
class Run:
    """One run of one side: how long a call of it took, and whether the host could not keep the device busy."""

    per_call_ns: float
    starved: bool = False


def run_of(wall_ns: float, calls: int, *, enqueue_ns: float = 0, spin_ns: float = 0, nothing_ns: float = 0) -> Run:
    """A run that took `wall_ns` beside the spin and the protocol, where so many calls of nothing take `nothing_ns`.

    Without a spin there is no device to keep busy.
    """
    starved = bool(spin_ns) and enqueue_ns - spin_ns > _LATE * wall_ns
    return Run(max(wall_ns - nothing_ns, 0.0) / calls, starved)


@dataclass(frozen=True)
class Probe:
    """All runs of one side."""

    calls: int
    """In each."""
    runs: tuple[Run, ...]

    @property
    def per_call_ns(self) -> float | None:
        """The shortest that a call took; None where most runs tell nothing."""
        told = [run.per_call_ns for run in self.runs if not run.starved]
        if len(told) < LEAST_RUNS or 2 * len(told) <= len(self.runs):
            return None
        return min(told)

    def slack_ns(self, claim_ns: float) -> float:
        """How far below the probe a claim may be: what is uncertain of a run counts once for all its calls."""
        return max(_RESOLUTION_NS, SLACK_SHARE * claim_ns) + SLACK_NS / self.calls


def floor_of(mine: Probe | None, its: Probe | None, its_claim_ns: float) -> float | None:
    """What an honest claim of the submission is not below; None where that cannot be told.

    `its` and `its_claim_ns` are the headline baseline's.
    """
    if mine is None or its is None or its_claim_ns <= 0:
        return None
    least, known = mine.per_call_ns, its.per_call_ns
    if least is None or known is None:
        return None
    relation = known / its_claim_ns
    return None if relation > _MOST_RELATION else least / max(relation, 1.0)


@dataclass(frozen=True)
class Ruling:
    """What counts of a submission's claims."""

    by_clock: bool = False
    """The judge's clock for single calls counts, where it says more."""
    at_least_ns: float = 0.0
    """No claim is believed below this."""
    below_probe: bool = False
    """The claims are below the probe's floor."""
    disputed: bool = False
    """That clock contradicts the claims, and the probe bears them out."""


def rule(
    claims: Sequence[int], apart: Sequence[int], untouched: Sequence[int], floor: float | None, slack: float
) -> Ruling:
    """Hold claims against both of the judge's clocks; `untouched` is how far apart calls are that did nothing.

    `slack` is how far below `floor` the typical claim may be.
    """
    claim = median(claims)
    below = floor is not None and claim < floor - slack
    at_least = 0.0 if floor is None else floor if below else floor - slack
    believed = max(SLACK_NS, SLACK_SHARE * claim)
    fastest_agree = quantile(apart, FASTEST) - quantile(untouched, FASTEST) <= max(
        believed, 3 * _uncertainty_of_fastest(untouched, len(apart))
    )
    all_agree = idle.typical(apart) - idle.typical(untouched) <= max(
        believed, 3 * idle.uncertainty(untouched, len(apart))
    )
    if fastest_agree and not all_agree:
        at_least = max(at_least, _of_fastest(claims, apart))
    stands = all_agree if floor is None else fastest_agree
    return Ruling(not stands, at_least, below, disputed=not stands and floor is not None and not below)


def is_forged(claim: float, fastest_own: float, floor: float | None, slack: float) -> bool:
    """Whether the claims are below half of what both clocks say at their fastest: no load does that."""
    if floor is None:
        return False
    limit = TAMPER_FACTOR * max(claim, 0.0)
    return floor > limit + slack and fastest_own > limit + SLACK_NS


def _uncertainty_of_fastest(untouched: Sequence[int], calls: int) -> float:
    """The standard error of the difference between that quantile of idle turns and of so many calls.

    By the half of the idle turns that load spares: of a normal distribution it scatters by 0.6 of the whole.
    """
    spared = sorted(untouched)[: max(2, (len(untouched) + 1) // 2)]
    mean = sum(spared) / len(spared)
    scatter = math.sqrt(sum((value - mean) ** 2 for value in spared) / max(len(spared) - 1, 1))
    return 2.3 * scatter * math.sqrt(1 / len(untouched) + 1 / max(calls, 1))


def _of_fastest(claims: Sequence[int], apart: Sequence[int]) -> float:
    """What is typically claimed of the calls whose clocks are closest: lies are not among them."""
    limit = quantile(apart, FASTEST)
    return median([claim for claim, far in zip(claims, apart, strict=True) if far <= limit])
