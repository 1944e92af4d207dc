"""Both workers and the device of the target `cuda` with clocks that are simulated: what the Timer asks, and no GPU."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.scoring import SUBMISSION

US = 1_000
PROTOCOL_NS, SWITCH_NS, FLUSH_NS, NOTHING_NS = 150 * US, 250 * US, 60 * US, 3 * US


@dataclass(frozen=True)
class Side:
    """One side's kernels: what a call takes alone, what each takes in a row, and what enqueuing takes, in ns."""

    alone: float
    in_a_row: float
    enqueue: float = 20 * US


@dataclass
class SimulatedGpu:
    """Stands where the Workers do. A lie maps the true span of a call to what is claimed."""

    sides: dict[str, Side]
    lie: Callable[[float], float] = lambda span: span
    skips_in_a_row: bool = False
    """The submission's process makes one call of those that it is asked for in a row."""
    load: Callable[[], float] = lambda: 0.0
    """What other work adds to a wall time, in ns."""
    hinders_host: bool = False
    """The host cannot keep the device busy."""
    spin: float = 0.96
    """How long a spin really lasts."""
    turns: None = None
    draw: random.Random = field(default_factory=lambda: random.Random(11))
    side: str = "null"
    orders: list[tuple[str, int]] = field(default_factory=list)

    def ask_reference(self, kind: Kind, body: dict[str, Any] | None = None) -> dict[str, Any]:
        if kind is Kind.PREPARE and body is not None:
            self.side = body["side"]
        return {"values": ""}

    def ask_candidate(self, kind: Kind, body: dict[str, Any] | None = None) -> dict[str, Any]:
        return {}

    def look(self, answer: dict[str, Any]) -> None:
        """Nothing is read in place on `cuda`."""

    def go(self, body: dict[str, Any], *, submission: bool, calls: int = 1) -> tuple[dict[str, Any], int]:
        side = SUBMISSION if submission else self.side
        self.orders.append((side, calls))
        its = self.sides.get(side, Side(NOTHING_NS, 0, US))
        made = 1 if submission and self.skips_in_a_row else calls
        span = its.alone * self.draw.gauss(1, 0.01)
        enqueue = made * its.enqueue * (60 if self.hinders_host else 1)
        spin = 1000 * body["spin_us"] * self.spin
        device = max(spin + made * FLUSH_NS + span + (made - 1) * its.in_a_row, enqueue)
        protocol = PROTOCOL_NS + (SWITCH_NS if submission else 0) + abs(self.draw.gauss(0, 20 * US))
        claim = self.lie(span) if submission else span
        return {"claim_ns": int(claim), "enqueue_ns": int(enqueue)}, int(device + protocol + self.load())


class Unchecked:
    """Stands where the Checker does: every output is right."""

    repeatable = True

    def __init__(self) -> None:
        self.landed = 0

    def seeds(self) -> int:
        return 1

    def check_previous(self) -> None:
        """They all are what they were."""

    def land(self, *, values: bool, where: str) -> None:
        self.landed += values
