"""What is known so far: the analysis, the native times, and how each variant fared."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda_agent.llm.builtin.design import Design
from cuda_agent.llm.builtin.files import Files
from cuda_agent.llm.builtin.history import Event, Purpose
from cuda_agent.llm.builtin.variants import Variant
from cuda_agent_judge.report import PASSED

Report = Mapping[str, Any]
STEPS = (Purpose.COMPILE, Purpose.VERIFY, Purpose.PROFILE)
MAX_TRIES = 3
"""How often a step is run again when its answer cannot be read."""
_AT_FLOOR = 1.03
"""A time up to this multiple of the floor leaves nothing for another variant to gain."""


@dataclass
class Fate:
    """How one variant fared."""

    reports: dict[Purpose, Report] = field(default_factory=dict)
    tries: Counter[Purpose] = field(default_factory=Counter)
    """Answers that could not be read, or that said nothing, by step."""

    @property
    def failure(self) -> Report | None:
        """The report that refused it."""
        return next((report for report in self.reports.values() if not passed(report)), None)

    @property
    def time_ms(self) -> float | None:
        """Its median time of a call; None until it was profiled."""
        return latency(self.reports.get(Purpose.PROFILE), "submission")

    @property
    def speedup(self) -> float | None:
        """Its speedup over the baseline it was timed in turns with; None until it was profiled.

        Only this compares variants: their absolute times were read at different moments of the machine.
        """
        report = self.reports.get(Purpose.PROFILE) or {}
        entry = report.get("speedup")
        entry = entry.get(report.get("headline", "compile")) if isinstance(entry, Mapping) else None
        value = entry.get("median") if isinstance(entry, Mapping) else None
        return float(value) if isinstance(value, int | float) else None

    @property
    def at_floor(self) -> bool:
        """Whether the judge says that all its bytes are needed and move as fast as the device can; on `cuda` only.

        On `cpu` a busy machine makes ceilings too low.
        """
        report = self.reports.get(Purpose.PROFILE) or {}
        performance = report.get("performance")
        floor = performance.get("floor") if isinstance(performance, Mapping) else None
        if report.get("target") != "cuda" or not isinstance(floor, Mapping) or floor.get("certain") is not True:
            return False
        least, time = floor.get("bytes_ms"), self.time_ms
        return isinstance(least, int | float) and time is not None and time <= _AT_FLOOR * least

    @property
    def next_step(self) -> Purpose | None:
        """What is to be run for it; None when it was refused or everything was run."""
        if self.failure is not None:
            return None
        return next((step for step in STEPS if step not in self.reports), None)


@dataclass
class Progress:
    """The state of the work."""

    files: Files = field(default_factory=Files)
    baseline: Report | None = None
    baseline_tries: int = 0
    fates: dict[str, Fate] = field(default_factory=dict)
    current: Variant | None = None
    """The variant that the files hold."""
    unreadable: str = ""
    """The last answer that could not be read."""


def passed(report: Report) -> bool:
    """Whether a step did what it is for."""
    return report.get("status") in PASSED


def latency(report: Report | None, side: str) -> float | None:
    """Return a median in ms out of a report."""
    entry = (report or {}).get("latency_ms")
    entry = entry.get(side) if isinstance(entry, Mapping) else None
    value = entry.get("median") if isinstance(entry, Mapping) else None
    return float(value) if isinstance(value, int | float) else None


def find_analysis(events: Sequence[Event]) -> tuple[Report | None, int]:
    """Return the last report of the analysis, and how many answers could not be read."""
    found: Report | None = None
    unread = 0
    for event in events:
        if event.purpose is Purpose.ANALYSIS:
            found = event.report or found
            unread += event.report is None
    return found, unread


def replay(events: Sequence[Event], design: Design) -> Progress:
    """Take in every call in order; a step counts for the variant that the files held when it ran."""
    progress = Progress()
    variants = design.variants()
    texts = {name: design.files(variant) for name, variant in variants.items()}
    for event in events:
        if event.purpose in (Purpose.WRITE, Purpose.RESET):
            progress.files.apply(event)
            progress.current = next((variants[n] for n, text in texts.items() if progress.files.holds(text)), None)
        elif event.purpose is Purpose.BASELINE:
            progress.baseline = event.report or progress.baseline
            progress.baseline_tries += 1
        elif event.purpose in STEPS and progress.current is not None:
            _take_step(progress, progress.current.name, event)
    return progress


def _take_step(progress: Progress, name: str, event: Event) -> None:
    fate = progress.fates.setdefault(name, Fate())
    report = event.report
    if report is None or report.get("status") == "inconclusive":
        fate.tries[event.purpose] += 1
        progress.unreadable = event.result.strip()[-300:]
        if report is None or fate.tries[event.purpose] < MAX_TRIES:
            return
        report = {**report, "status": "tie"}
    fate.reports[event.purpose] = report
