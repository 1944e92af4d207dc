"""Which span counts: the one that a worker claims, or the judge's own.

The judge's clock also sees what the protocol costs: waking, refreshing inputs, two messages. Baselines, which have no
reason to lie, show how much that typically is and how far it spreads on this machine now. Both sides are held to it by
the same rule, so that load, which blurs the judge's clock, favours neither.
"""

from dataclasses import dataclass, field

from cuda_agent_judge import idle
from cuda_agent_judge.statistics import median, quantile

SUBMISSION = "submission"
SLACK_NS = 20_000
SLACK_SHARE = 0.03
"""A claim is believed within the larger of the two: this is what a forged clock can gain."""
SPREAD_SHARE = 0.1
"""However noisy the machine, a single call is allowed no more than this share of the judge's own span beyond it."""
TAMPER_FACTOR = 2.0
FAST = 0.1
"""The quantile of each side's spans that load hardly reaches."""
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
    """How long its threads stood in line for a core meanwhile, added up."""
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

    def spans(self) -> dict[str, list[int]]:
        """The spans that count, by side, in ns."""
        if self.trusting:
            return {side: [max(call.claim_ns, 0) for call in calls] for side, calls in self.calls.items()}
        if self.idle:
            return {side: self._beside_idle(side, calls) for side, calls in self.calls.items()}
        apart = self.apart()
        found = {side: [score(call, apart) for call in calls] for side, calls in self.calls.items()}
        if mine := found.get(SUBMISSION):
            found[SUBMISSION] = _made_whole(mine, self.calls[SUBMISSION], apart)
        return found

    def enqueue_us(self) -> dict[str, float]:
        """The typical time to enqueue a call, by side; for reading, it counts nowhere."""
        return {side: median([call.enqueue_ns for call in calls]) / 1e3 for side, calls in self.calls.items()}

    def fastest(self, side: str) -> float:
        """The ratio of both sides' fastest tenth; to the very fastest call of a side that mostly waited for cores."""
        spans = self.spans()
        its = self.calls[side]
        waited = median([call.waited_ns / max(span, 1) for call, span in zip(its, spans[side], strict=True)])
        share = 0.0 if waited > HINDERED_SHARE else FAST
        return max(quantile(spans[SUBMISSION], FAST), 1.0) / max(quantile(spans[side], share), 1.0)

    def apart(self) -> Apart:
        """What the baselines show of this machine."""
        seen = [call.apart_ns for side, calls in self.calls.items() if side != SUBMISSION for call in calls]
        if not seen:
            return Apart()
        typical = median(seen)
        return Apart(typical, quantile(seen, 0.9) - typical)

    def _beside_idle(self, side: str, calls: list[Call]) -> list[int]:
        believed = side != SUBMISSION or self._stands()
        return [max(call.claim_ns, 0) if believed else max(call.own_ns, call.claim_ns) for call in calls]

    def _stands(self) -> bool:
        """Whether the claims are no further from the judge's clock than those of calls that did nothing."""
        claims = [call.claim_ns for call in self.calls[SUBMISSION]]
        apart = [call.wall_ns - call.claim_ns for call in self.calls[SUBMISSION]]
        slack = max(SLACK_NS, SLACK_SHARE * median(claims), 3 * idle.uncertainty(self.idle, len(apart)))
        return idle.typical(apart) - idle.typical(self.idle) <= slack

    def disagrees(self) -> bool:
        """Whether most of the submission's claims are below half of what the judge's clock says."""
        if self.idle and self.calls.get(SUBMISSION) and self._stands():
            return False
        calls, apart = self.calls.get(SUBMISSION, []), self.apart()
        allowed = apart.typical + apart.spread + SLACK_NS
        below = [call.own_ns > TAMPER_FACTOR * max(call.claim_ns, 0) + allowed for call in calls]
        return sum(below) * 2 > len(below)


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
