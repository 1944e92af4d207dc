"""Interleaved timing: in every round each side gets the same fresh inputs, in random order, and the output is checked.

The clock is the judge's own, around the order to the worker; scoring.py says when a worker's claimed span stands.
On `cpu` the side whose turn it is not stands still.
"""

import random
import secrets
import time
from typing import Any

from cuda_agent_judge import battery, probe
from cuda_agent_judge.checking import TIMED_CALL, Checker, new_seed
from cuda_agent_judge.defences import Defences
from cuda_agent_judge.effort import NARROW, Effort, is_clear, is_far
from cuda_agent_judge.probing import NOTHING, Prober
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.scoring import SUBMISSION, Call, Measured
from cuda_agent_judge.statistics import log_ratios, median, ratio_interval
from cuda_agent_judge.turns import Meddled, Turns
from cuda_agent_judge.workers import Refused, Workers

FORGED = (
    "the clock in the submission's process says less than half of what its calls take by the judge's clock, one by one "
    "and queued in a row: have the current stream wait for every other that you use, and leave the judge's modules and "
    "the clocks of Python and PyTorch as they are"
)
SETTLE_S = 0.003
"""Idle OpenMP threads of the other worker spin about so long before they sleep."""
FLUSH_BYTES = 32 << 20
"""What caches hold (`cpu`). A submission stood still while inputs were drawn, a baseline a moment ago did something."""


class Timer:
    """Times sides in rounds."""

    def __init__(
        self,
        workers: Workers,
        checker: Checker | None,
        target: str,
        defences: Defences,
        candidate_idle: list[int] | None = None,
    ) -> None:
        self._workers = workers
        self._trusting = not defences.clock
        self._new_seed = checker.seeds if checker is not None else new_seed
        self._idle = candidate_idle or []
        self._checker = checker
        self._on_gpu = target == "cuda"
        self._spin(probe.LEAST_SPIN_US if self._on_gpu else 0)
        self._overhead_ns = 0
        self._nothing: list[int] = []
        self._values = ""
        self._order = random.Random(secrets.randbits(128))
        self._flush = bytearray(0 if self._on_gpu else FLUSH_BYTES)

    def measure(self, sides: list[str], headline: str, effort: Effort) -> Measured:
        """Run rounds until the effort is spent or the interval is narrow.

        Raises:
            Refused: a timed call of the submission was wrong.
        """
        found = Measured({side: [] for side in sides}, trusting=self._trusting, idle=self._idle, headline=headline)
        # The first call of all loads and tunes; the second shows what enqueueing takes.
        called = [side for side in sides if side == SUBMISSION or self._checker is None or self._on_gpu or effort.warm]
        enqueue = [min(self._turn(side) for _ in range(self._turns(side))) for side in called]
        self._calibrate(probe.spin_for(1, max(enqueue)) if self._on_gpu else 0)
        end = time.monotonic() + effort.budget_s
        while not self._enough(found, headline, effort, end):
            self._round(sides, found)
        self._cross_check(found, effort)
        self._wake()
        found.notes += found.doubts()
        return found

    def _cross_check(self, found: Measured, effort: Effort) -> None:
        """Have calls queued back to back: on `cuda` always, on `cpu` where the clocks are far apart.

        Raises:
            Refused: the worker's clock is forged.
        """
        checker = self._checker
        if SUBMISSION not in found.calls or checker is None or not checker.repeatable or self._trusting:
            return
        if not (self._on_gpu or found.disagrees()):
            return
        Prober(self, found, on_gpu=self._on_gpu).run(effort.runs)
        if found.is_forged():
            raise Refused("tampering", FORGED)

    def _enough(self, found: Measured, headline: str, effort: Effort, end: float) -> bool:
        rounds = len(found.calls[headline])
        if rounds < effort.least:
            return False
        if rounds >= effort.most or time.monotonic() > end:
            return True
        if SUBMISSION not in found.calls or (rounds % 5 and rounds != effort.clear):
            return False
        spans = found.spans()
        interval = ratio_interval(log_ratios(spans[SUBMISSION], spans[headline]), rounds)
        if effort.far is not None and rounds >= effort.far and is_far(interval):
            return True
        if effort.clear is not None and rounds >= effort.clear and is_clear(interval):
            return True
        return interval.high < NARROW * interval.low

    def _round(self, sides: list[str], found: Measured) -> None:
        order = list(sides)
        self._order.shuffle(order)
        seed = self._new_seed()
        if not self._on_gpu:
            self._draw(seed, with_submission=SUBMISSION in sides, prepared=battery.TIMED)
        done: list[str] = []
        for side in order:
            if self._on_gpu:
                self._draw_for(side, seed)
            before = self._waited(side)
            wall, claim, enqueue = self._call(side)
            waited = max((ns - before.get(thread, 0) for thread, ns in self._waited(side).items()), default=0)
            overhead = median(self._idle) if self._idle and side == SUBMISSION else self._overhead_ns
            found.calls[side].append(Call(max(int(wall - overhead), 0), claim, wall, waited, enqueue))
            self._land(side, twin_known="eager" in done)
            done.append(side)

    def _draw_for(self, side: str, seed: int) -> None:
        """Draw for the next call of a side."""
        if not self._on_gpu:
            self._draw(seed, with_submission=side == SUBMISSION)
            return
        # The first call after a switch between contexts is slower: it runs on other values and does not count.
        self._draw(self._new_seed())
        self._call(side)
        self._draw(seed)

    def in_a_row(self, side: str, calls: int) -> tuple[int, int]:
        """Have so many calls queued on fresh inputs and the last output checked; returns wall and enqueue time in ns.

        The wall time is without the spin and what the protocol costs.

        Raises:
            Refused: the output was wrong.
        """
        submission = side == SUBMISSION
        if side == NOTHING:
            self._call(NOTHING)  # behind a switch between contexts, as below
        else:
            self._draw_for(side, self._new_seed())
        wall, _, enqueue = self._call(side, calls)
        if side != NOTHING:
            self._land(side, twin_known=not submission)
        # The shortest runs count, and so does the shortest of what is taken off.
        return wall - min(self._idle if self._idle and submission else self._nothing), enqueue

    def _turns(self, side: str) -> int:
        """One is enough for a baseline where the host's time does not count: it has been called before."""
        return 2 if self._on_gpu or side == SUBMISSION else 1

    def _turn(self, side: str) -> int:
        """Make one warm call on fresh inputs; returns the time to enqueue it in ns."""
        ready = battery.TIMED if side == SUBMISSION and not self._on_gpu else None
        self._draw(self._new_seed(), with_submission=side == SUBMISSION, prepared=ready)
        enqueue = self._call(side)[2]
        self._land(side, twin_known=side != SUBMISSION)
        return enqueue

    def _draw(self, seed: int, *, with_submission: bool = False, prepared: str | None = None) -> None:
        """Draw inputs; on `cpu` a submission stands still from before they can be seen until it is called on them."""
        body = {"variant": "native", "seed": seed, "hold": not self._on_gpu, "prepared": prepared}
        self._values = self._workers.ask_reference(Kind.DRAW, body)["values"]
        if self._on_gpu:
            return
        if with_submission:
            self._wake()
            self._workers.ask_candidate(Kind.PREPARE, self._prepare(SUBMISSION))
        if self._workers.turns is not None:
            self._workers.turns.stop_submission()
        self._workers.ask_reference(Kind.FILL)

    def _waited(self, side: str) -> dict[str, int]:
        turns = self._workers.turns
        return {} if turns is None else turns.waited_ns(submission=side == SUBMISSION)

    def _wake(self) -> None:
        if self._workers.turns is not None:
            self._workers.turns.wake_submission()

    def _prepare(self, side: str) -> dict[str, Any]:
        return {"side": side, "set": secrets.randbelow(64), "values": self._values, "later": not self._on_gpu}

    def _call(self, side: str, calls: int = 1) -> tuple[int, int, int]:
        submission = side == SUBMISSION
        if not submission:
            self._workers.ask_reference(Kind.PREPARE, self._prepare(side))
        elif self._on_gpu:
            self._workers.ask_candidate(Kind.PREPARE, self._prepare(side))
        if self._workers.turns is not None and not submission:
            self._stop_reference(self._workers.turns)
        if not self._on_gpu:
            time.sleep(SETTLE_S)
            self._flush[:] = bytes(len(self._flush))  # both sides begin with cold caches
        answer, wall = self._workers.go({"spin_us": self._spin_us}, submission=submission, calls=calls)
        if submission:
            self._workers.look(answer)
        # How long the spin lasts is known, and need not be the same in all calls that are compared.
        wall -= self._spin_ns
        return wall, _span(answer, "claim_ns"), _span(answer, "enqueue_ns")

    @staticmethod
    def _stop_reference(turns: Turns) -> None:
        """Let the reference worker be woken as the submission is, so that the waking costs both the same."""
        try:
            turns.stop_reference()
        except Meddled as meddled:
            raise Refused("tampering", str(meddled)) from meddled

    def _land(self, side: str, *, twin_known: bool) -> None:
        if side != SUBMISSION:
            self._workers.ask_reference(Kind.LAND)
            return
        if self._checker is None:
            return
        if not twin_known:
            self._workers.ask_reference(Kind.EXPECT, {"variant": "twin"})
        self._checker.check_previous()
        self._checker.land(values=True, where=TIMED_CALL)
        if self._workers.turns is not None:
            self._workers.turns.stop_submission()

    def idle_turn(self) -> int:
        """Make a call in a candidate worker that holds no submission; returns how far the clocks are apart in ns.

        All else is as in a timed call: values drawn by the reference worker, a call that does not count, the call.
        """
        self._draw(new_seed())
        self._call(SUBMISSION)
        self._draw(new_seed())
        wall, claim, _ = self._call(SUBMISSION)
        return wall - claim

    def _calibrate(self, spin_us: int) -> None:
        """Measure what the protocol itself costs, and how long a spin of `spin_us` lasts: the one from now on.

        Calls that do nothing are compared by what they cost beside the least spin, as idle turns are.
        """
        self._spin(probe.LEAST_SPIN_US if self._on_gpu else 0)
        self._nothing = self._null_apart()
        self._overhead_ns = int(median(self._nothing))
        self.lengthen_spin(spin_us)

    def lengthen_spin(self, spin_us: int) -> int:
        """Spin for so long from now on; returns how long that really is, in ns."""
        if spin_us != self._spin_us:
            self._spin(spin_us)
            self._spin_ns += min(self._null_apart()) - min(self._nothing)
        return self._spin_ns

    def _spin(self, spin_us: int) -> None:
        self._spin_us, self._spin_ns = spin_us, 1000 * spin_us

    def _null_apart(self) -> list[int]:
        """By how much the judge's span of calls that do nothing is longer than their claim."""
        apart = []
        for _ in range(9):
            wall, claim, _ = self._call(NOTHING)
            apart.append(wall - claim)
        return apart


def _span(answer: dict[str, Any], key: str) -> int:
    value = answer.get(key)
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 62) < value < 1 << 62:
        raise Refused("tampering", "the submission interfered with the judge: its answer holds no span")
    return value
