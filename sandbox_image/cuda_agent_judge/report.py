"""The Report: what the judge says, as JSON. Standard library only.

The host reads this module and no other of the judge.

Latencies are in milliseconds, memory in bytes. A speedup is t_baseline / t_submission.
"""

import dataclasses
import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

SCHEMA = 1
TARGET_RATIO = 0.95
"""A win is a time below this share of the baseline's."""

Command = Literal["analyze", "compile", "verify", "profile", "verdict", "keep"]
Status = Literal[
    # verdicts on a right submission
    "win",
    "tie",
    "slower",
    # steps that passed and are no verdict
    "compiled",
    "correct",
    "measured",
    # verdicts against a submission
    "incorrect",
    "compile_error",
    "runtime_error",
    "timeout",
    "policy",
    "tampering",
    # nothing can be said of the submission
    "inconclusive",
    "not_counted",
    "operator_error",
]
PASSED: frozenset[str] = frozenset({"win", "tie", "slower", "compiled", "correct", "measured"})


@dataclass(frozen=True)
class Interval:
    """A median with its 95 % bootstrap interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Latency:
    """Time of one call in ms: median and quartiles over `calls` timed calls."""

    median: float
    q25: float
    q75: float
    calls: int


@dataclass(frozen=True)
class OutputError:
    """How far one output is from the reference, with the limits it was held to."""

    output: str
    """Where it stands in the output tree: "" for a single tensor, "0", "1.h", ..."""
    dtype: str
    relative_l2: float
    relative_l2_limit: float
    max_error: float
    max_error_limit: float


@dataclass(frozen=True)
class Report:
    """One answer of the judge."""

    command: Command
    status: Status
    reason: str = ""
    """One sentence; for a failure what is wrong and what to change."""
    details: str = ""
    """Longer text for the model: compiler errors, a traceback of the submission."""
    final: bool = False
    """A clean build in fresh processes with new seeds and baselines timed again."""
    speedup: dict[str, Interval] = field(default_factory=dict)
    """By baseline: "compile" (missing when torch.compile cannot run the operator), "eager"."""
    latency_ms: dict[str, Latency] = field(default_factory=dict)
    """By side: "submission", "eager", "compile"."""
    headline: str = "compile"
    """The baseline the status speaks of; "eager" when torch.compile cannot run the operator."""
    errors: list[OutputError] = field(default_factory=list)
    """The worst of each output over all checked calls."""
    checked_calls: int = 0
    peak_memory_bytes: dict[str, int] = field(default_factory=dict)
    """By side; the target's memory (device memory on cuda, resident set on cpu)."""
    build_s: float | None = None
    held: dict[str, float] = field(default_factory=dict)
    """Seconds of the command: `device_s` that it held the device, `build_s` a place to compile, and `device_wait_s` and
    `build_wait_s` that it waited for them."""
    device_state: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Of a GPU, `before` and `after` it was timed: clocks, why they were held down, temperature, power."""
    phases: dict[str, float] = field(default_factory=dict)
    """Seconds by stage of the command ("total" for the whole of it), and `stage.part` for what took them."""
    target: Literal["cpu", "cuda"] = "cpu"
    rules: dict[str, str] = field(default_factory=dict)
    """precision, libraries, output_lifetime, baseline, tolerance."""
    isolation: Literal["separate-uid", "shared-uid"] = "shared-uid"
    notes: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    """torch, device, compiler, ... as the judge saw them."""
    submission_sha256: str = ""
    """Over model_new.py and kernels/ (names and bytes); "" where there is no submission."""
    nonce: str = ""
    """Given by the caller and handed back, so that an old file is never taken for a new answer."""
    analysis: dict[str, Any] | None = None
    """Only of `analyze`: the traced graph (docs/analysis.md)."""
    performance: dict[str, Any] | None = None
    """Where the time goes: floor, rates, kernels (docs/judge.md); None where nothing was measured."""
    schema: int = SCHEMA

    @property
    def passed(self) -> bool:
        """Whether the step did what it is for; a passed verdict may still be a tie or slower."""
        return self.status in PASSED

    @property
    def performance_lines(self) -> list[str]:
        """Where the time goes, for a reader."""
        lines = self.performance.get("lines") if isinstance(self.performance, dict) else None
        return [line for line in lines if isinstance(line, str)] if isinstance(lines, list) else []

    @property
    def at_limit(self) -> str:
        """Why no kernel can win against the baseline that was measured; "" where one may."""
        sentence = self.performance.get("at_limit") if isinstance(self.performance, dict) else None
        return sentence if isinstance(sentence, str) else ""

    def to_json(self) -> str:
        """One line of JSON, with nothing that is not JSON (NaN and infinities become null)."""
        return json.dumps(_finite(dataclasses.asdict(self)), allow_nan=False, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> "Report":
        """Read a report.

        Raises:
            ValueError: it is no report of this schema.
        """
        try:
            raw = json.loads(text)
        except ValueError as error:
            raise ValueError(f"the judge's report is not JSON: {error}") from error
        if not isinstance(raw, dict) or raw.get("schema") != SCHEMA:
            raise ValueError(f"the judge's report is not of schema {SCHEMA}")
        known = {f.name for f in dataclasses.fields(cls)}
        values = {key: value for key, value in raw.items() if key in known}
        if values.get("status") not in get_args(Status) or values.get("command") not in get_args(Command):
            raise ValueError(f"the judge's report has an unknown status {values.get('status')!r}")
        try:
            values["speedup"] = {k: Interval(**v) for k, v in values.get("speedup", {}).items()}
            values["latency_ms"] = {k: Latency(**v) for k, v in values.get("latency_ms", {}).items()}
            values["errors"] = [OutputError(**_restored(e)) for e in values.get("errors", [])]
            values["held"] = {str(k): _seconds(v) for k, v in values.get("held", {}).items()}
            return cls(**values)
        except (TypeError, AttributeError) as error:
            raise ValueError(f"the judge's report is malformed: {error}") from error


def side_name(side: str) -> str:
    """Name a side of a measurement for people: "compile" is torch.compile."""
    return "torch.compile" if side == "compile" else side


def _seconds(value: Any) -> float:
    if isinstance(value, int | float) and 0 <= value < math.inf:
        return float(value)
    raise TypeError(f"{value!r} is no time")


def _restored(error: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: a distance that came as null was not finite."""
    return {key: math.inf if value is None else value for key, value in error.items()}


def _finite(value: Any) -> Any:
    if isinstance(value, float) and value - value != 0.0:
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value
