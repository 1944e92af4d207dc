"""Which span counts: the one that a worker claims, or the judge's own.

The judge's clock also sees what the protocol costs: waking, refreshing inputs, two messages. Baselines, which have no
reason to lie, show how much that typically is and how far it spreads on this machine now. Both sides are held to it by
the same rule, so that load, which blurs the judge's clock, favours neither. A claim is believed within max(SLACK_NS,
SLACK_SHARE of it): this is what a forged clock can gain. On `cuda` the throughput probe bounds it further (probe.py).
"""

from dataclasses import dataclass, field

from cuda_agent_judge import verdict
from cuda_agent_judge.probe import SLACK_NS, SLACK_SHARE, TAMPER_FACTOR, Probe, Ruling, floor_of, is_forged, rule
from cuda_agent_judge.report import Interval
from cuda_agent_judge.statistics import median, quantile

SUBMISSION = "submission"
SPREAD_SHARE = 0.1
"""However noisy the machine, a single call is allowed no more than this share of the judge's own span beyond it."""
FAST = 0.1
"""The quantile of each side's spans that load hardly reaches."""
DISPUTED = ", but calls queued in a row bear the submission's out: where it is slower by that clock, measure again"
HINDERED_SHARE = 0.25
"""In line for a core for more than this share of the typical call: the machine is loaded."""


@dataclass(frozen=True)
class Call:
    """One timed call: the judge's own span, less what a call that does nothing takes, and the worker's claim, in ns."""

    own_ns: int
    claim_ns: int
    wall_ns: int = 0
    """The judge's own span with what the protocol costs."""
    waited_ns: int = 0
    """How long the one of its threads that was worst off stood in line for a core meanwhile."""
    enqueue_ns: int = 0
    """On `cuda`, how long the worker says that the host took to enqueue it."""

    @property
    def apart_ns(self) -> int:
        """By how much the judge saw more than was claimed; a negative claim is none."""
        return self.own_ns - max(self.claim_ns, 0)


@dataclass(frozen=True)
class Apart:
    """How far the clocks of the baselines are apart, in ns."""

    typical: float = 0.0
    spread: float = 0.0
    """From there to the 90th percentile."""


@dataclass
class Measured:
    """Calls by side, one a round."""

    calls: dict[str, list[Call]]
    notes: list[str] = field(default_factory=list)
    trusting: bool = False
    """Every claim stands: in tests alone."""
    idle: list[int] = field(default_factory=list)
    """On `cuda`: the judge's span less the claim of calls that did nothing in the candidate worker (idle.py)."""
    probes: dict[str, Probe] = field(default_factory=dict)
    """Calls queued back to back, of the submission and of the headline baseline."""
    headline: str = "compile"

    def spans(self) -> dict[str, list[int]]:
        """The spans that count, by side, in ns."""
        if self.trusting:
            return {side: _claims(calls) for side, calls in self.calls.items()}
        if self.idle:
            claimed = {side: _claims(calls) for side, calls in self.calls.items()}
            if calls := self.calls.get(SUBMISSION):
                claimed[SUBMISSION] = _ruled(calls, self.ruling())
            return claimed
        apart = self.apart()
        found = {side: [score(call, apart) for call in calls] for side, calls in self.calls.items()}
        if mine := found.get(SUBMISSION):
            found[SUBMISSION] = _made_whole(mine, self.calls[SUBMISSION], apart)
        return found

    def enqueue_us(self) -> dict[str, float]:
        """The typical time to enqueue a call, by side; for reading, it counts nowhere."""
        return {side: median([call.enqueue_ns for call in calls]) / 1e3 for side, calls in self.calls.items()}

    def in_a_row_us(self) -> dict[str, float]:
        """What the probe says that a call takes, by side; no entry where it tells nothing."""
        told = {side: its.per_call_ns for side, its in self.probes.items()}
        return {side: ns / 1e3 for side, ns in told.items() if ns is not None}

    def against(self, side: str) -> verdict.Doubts:
        """What stands against the medians of the ratio to a side."""
        return verdict.Doubts(self.fastest(side), self.slower_by_clock_alone(side), self.under_load(side))

    def fastest(self, side: str) -> float:
        """The ratio of both sides' fastest tenth; to the very fastest call of a side that mostly waited for cores."""
        spans = self.spans()
        share = 0.0 if self._is_hindered(side, spans[side]) else FAST
        return max(quantile(spans[SUBMISSION], FAST), 1.0) / max(quantile(spans[side], share), 1.0)

    def under_load(self, side: str) -> Interval | None:
        """Between what the ratio to a side may lie where calls stood in line for a core; None where they hardly did.

        The scheduler may let one process wait in every call and the other in none, for as long as both live: nothing
        in the spans shows it. What a call took is at most its span, and at least what is left without the waiting.
        """
        spans = self.spans()
        if not any(self._is_hindered(which, spans[which]) for which in (SUBMISSION, side)):
            return None
        mine, its = spans[SUBMISSION], spans[side]
        least_of_mine, least_of_its = (self._without_waiting(which, spans[which]) for which in (SUBMISSION, side))
        middle = median(mine) / max(median(its), 1.0)
        return Interval(middle, least_of_mine / max(median(its), 1.0), median(mine) / max(least_of_its, 1.0))

    def _is_hindered(self, side: str, spans: list[int]) -> bool:
        pairs = zip(self.calls[side], spans, strict=True)
        return median([call.waited_ns / max(span, 1) for call, span in pairs]) > HINDERED_SHARE

    def _without_waiting(self, side: str, spans: list[int]) -> float:
        pairs = zip(self.calls[side], spans, strict=True)
        return median([max(span - call.waited_ns, 0) for call, span in pairs])

    def slower_by_clock_alone(self, side: str) -> bool:
        """Whether nothing but the judge's clock for single calls could say that the submission is slower."""
        if self.trusting or not self.idle or not self.ruling().disputed:
            return False
        mine, its = (median(_claims(self.calls[which])) for which in (SUBMISSION, side))
        return mine <= verdict.SLOWER * its

    def apart(self) -> Apart:
        """What the baselines show of this machine."""
        seen = [call.apart_ns for side, calls in self.calls.items() if side != SUBMISSION for call in calls]
        if not seen:
            return Apart()
        typical = median(seen)
        return Apart(typical, quantile(seen, 0.9) - typical)

    def claims_are_below(self) -> bool:
        """Whether the submission's typical claim is below what the probe says so far."""
        floor, claim = self.floor_ns(), median(_claims(self.calls[SUBMISSION]))
        return floor is not None and claim < floor - self._slack_ns()

    def ruling(self) -> Ruling:
        """What counts of the submission's claims beside calls that did nothing, on `cuda`."""
        calls = self.calls[SUBMISSION]
        apart = [call.wall_ns - call.claim_ns for call in calls]
        return rule([call.claim_ns for call in calls], apart, self.idle, self.floor_ns(), self._slack_ns())

    def floor_ns(self) -> float | None:
        """What the throughput probe says that an honest claim of the submission is not below."""
        its = self.calls.get(self.headline)
        if not its:
            return None
        return floor_of(self.probes.get(SUBMISSION), self.probes.get(self.headline), median(_claims(its)))

    def is_forged(self) -> bool:
        """Whether the claims are below half of what the judge's clock and the probe say, where load reaches neither."""
        calls = self.calls.get(SUBMISSION)
        if not calls or self.trusting:
            return False
        fastest = quantile([call.own_ns for call in calls], 0.25) - (0 if self.idle else self.apart().typical)
        claim = median([call.claim_ns for call in calls])
        return is_forged(claim, fastest, self.floor_ns(), self._slack_ns())

    def doubts(self) -> list[str]:
        """Notes on a clock of the submission that was not believed."""
        if self.trusting or not self.calls.get(SUBMISSION):
            return []
        if self.disagrees():
            words = (
                "the submission's own clock disagreed with the judge's by more than a factor of 2; the judge's counts"
            )
            return [words + DISPUTED if self.idle and self.ruling().disputed else words]
        if self.idle and self.ruling().below_probe:
            return ["the submission's own clock says less than calls queued in a row take: these count"]
        return []

    def _slack_ns(self) -> float:
        mine = self.probes.get(SUBMISSION)
        return mine.slack_ns(median(_claims(self.calls[SUBMISSION]))) if mine else 0.0

    def disagrees(self) -> bool:
        """Whether most of the submission's claims are below half of what the judge's clock says."""
        calls, apart = self.calls.get(SUBMISSION, []), self.apart()
        if self.trusting or (self.idle and calls and not self.ruling().by_clock):
            return False
        allowed = apart.typical + apart.spread + SLACK_NS
        below = [call.own_ns > TAMPER_FACTOR * max(call.claim_ns, 0) + allowed for call in calls]
        return sum(below) * 2 > len(below)


def _claims(calls: list[Call]) -> list[int]:
    return [max(call.claim_ns, 0) for call in calls]


def _ruled(calls: list[Call], ruling: Ruling) -> list[int]:
    """The spans of a submission on `cuda`."""
    own = [call.own_ns if ruling.by_clock else 0 for call in calls]
    return [max(call.claim_ns, mine, int(ruling.at_least_ns)) for call, mine in zip(calls, own, strict=True)]


def score(call: Call, apart: Apart) -> int:
    """The span of one call: the claim while the judge's clock agrees with it, else what that clock says."""
    claim = max(call.claim_ns, 0)
    allowed = max(SLACK_NS, SLACK_SHARE * claim) + min(apart.spread, SPREAD_SHARE * call.own_ns)
    if call.apart_ns - apart.typical <= allowed:
        return claim
    return int(max(call.own_ns - apart.typical, claim))


def _made_whole(spans: list[int], calls: list[Call], apart: Apart) -> list[int]:
    """Add what claims lack again and again: a median over many calls sees less than a single call can hide."""
    lacking = median([call.own_ns - span for call, span in zip(calls, spans, strict=True)]) - apart.typical
    if lacking <= max(SLACK_NS, SLACK_SHARE * median(spans)):
        return spans
    return [int(span + lacking) for span in spans]
