"""What came out of a batch: a row a job, read from its run's folder, so that it is true whoever worked on the run."""

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from cuda_agent.batch.batch_dir import BatchDir
from cuda_agent.batch.faults import Fault
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.standing import Tally, document_of
from cuda_agent.batch.trail import account_of

_PASSED = frozenset({"win", "tie", "slower"})


class Category(StrEnum):
    """Whether a job says something about the model."""

    COUNTED = "counted"
    NOT_COUNTED = "not counted"
    """The operator's own result says too little (it is constant, say) to tell a right kernel from a wrong one."""
    UNUSABLE = "unusable"
    """The operator's file cannot be used."""
    INFRASTRUCTURE = "infrastructure"
    """The machinery failed, and its retries too."""
    OPEN = "open"
    """Not finished yet."""


@dataclass(frozen=True)
class Ratio:
    """A speedup with its 95 % interval."""

    median: float
    low: float
    high: float


@dataclass(frozen=True)
class Row:
    """One job."""

    job: str
    operator: str
    key: str
    level: str
    model: str
    sha256: str
    category: Category
    stop: str = ""
    """Why the run stopped; of a job without a run, whose fault that is."""
    message: str = ""
    status: str = ""
    """Of the best submission: win, tie, slower; "" where none passed."""
    final: bool = False
    """Whether its numbers are those of a final verdict."""
    over_compile: Ratio | None = None
    over_eager: Ratio | None = None
    bound: str = ""
    """What bounds the best submission, in the judge's words."""
    latency_ms: Mapping[str, float] = field(default_factory=dict)
    """Medians by side: submission, compile, eager."""
    turns: int = 0
    cost_usd: float | None = 0.0
    """None where the price is unknown."""
    input_tokens: int = 0
    output_tokens: int = 0
    work_s: float = 0.0
    spans: tuple[tuple[float, float], ...] = ()
    """When a process was at work on it: from and to, in seconds of UTC."""
    cpu_s: float = 0.0
    """Of the attempts that ended while the batch lived."""
    attempts: int = 0
    failures: int = 0
    """Attempts that the infrastructure ended."""
    held: Mapping[str, float] = field(default_factory=dict)
    rules: Mapping[str, str] = field(default_factory=dict)
    """Target, precision, ... of its verdicts; empty where there was none."""
    isolation: str = ""
    device: str = ""
    gpu: str = ""
    """Which one of its kind, where there is one."""
    run: str = ""

    @property
    def correct(self) -> bool:
        """Whether a submission passed the judge."""
        return self.category is Category.COUNTED and self.status in _PASSED

    @property
    def won(self) -> bool:
        """Whether a final verdict says that the target is reached."""
        return self.correct and self.final and self.status == "win"

    def over(self, baseline: str) -> Ratio | None:
        """Return the speedup over a baseline; where torch.compile cannot run the operator, eager stands for it."""
        return (self.over_compile or self.over_eager) if baseline == "compile" else self.over_eager


def rows(batch: BatchDir, jobs: Iterable[Job], tallies: Mapping[str, Tally]) -> Iterator[Row]:
    """Yield the jobs' rows in order."""
    for job in jobs:
        yield row_of(batch, job, tallies.get(job.name))


def row_of(batch: BatchDir, job: Job, tally: Tally | None) -> Row:
    """Read one job's row."""
    document = document_of(batch, job)
    about: dict[str, Any] = {
        **{"job": job.name, "operator": job.operator, "key": job.key, "level": job.level, "model": job.model},
        "sha256": job.sha256,
        "attempts": tally.attempts if tally else 0,
        "failures": tally.failures if tally else 0,
        "cpu_s": round(tally.cpu_s, 1) if tally else 0.0,
    }
    if document is None:
        return Row(**about, **_without_run(job, tally))
    account = account_of(batch.run(job.name) / "trajectory.jsonl")
    verdict = account.last_verdict or {}
    result = document.get("result") or {}
    usage = document.get("usage") or {}
    of = result or verdict
    return Row(
        **about,
        **_ending(document, job, tally, verdict),
        status=str(result.get("status") or ""),
        final=bool(result.get("final")),
        bound=_bound(result),
        over_compile=_ratio(result, "compile"),
        over_eager=_ratio(result, "eager"),
        latency_ms={side: float(one["median"]) for side, one in (result.get("latency_ms") or {}).items()},
        turns=int(document.get("turns") or 0),
        cost_usd=usage.get("cost_usd", 0.0),
        input_tokens=int(usage.get("input_tokens") or 0),
        output_tokens=int(usage.get("output_tokens") or 0),
        work_s=round(account.work_s, 1),
        spans=tuple(account.spans),
        held=_held(document.get("held") or {}, account.held),
        rules={"target": str(of["target"]), **of["rules"]} if of.get("rules") else {},
        isolation=str(of.get("isolation") or ""),
        device=str((document.get("environment") or {}).get("device") or ""),
        gpu=str((verdict.get("environment") or {}).get("gpu") or ""),
        run=str(batch.run(job.name)),
    )


def _held(noted: Mapping[str, float], judged: Mapping[str, float]) -> dict[str, float]:
    """Of what the run noted of all commands and what its verdicts say: a run that was killed had no time to note."""
    return {kind: round(max(noted.get(kind, 0.0), judged.get(kind, 0.0)), 3) for kind in sorted({**noted, **judged})}


def _without_run(job: Job, tally: Tally | None) -> dict[str, Any]:
    last = tally.last if tally else None
    if last is not None and last.fault == Fault.OPERATOR and last.sha256 == job.sha256:
        return {"category": Category.UNUSABLE, "stop": last.fault, "message": last.message}
    return _not_finished(tally)


def _not_finished(tally: Tally | None) -> dict[str, Any]:
    last = tally.last if tally else None
    if last is not None and last.fault == Fault.INFRASTRUCTURE:
        return {"category": Category.INFRASTRUCTURE, "stop": last.fault, "message": last.message}
    return {"category": Category.OPEN, "message": last.message if last and last.fault == Fault.BLOCKING else ""}


def _ending(document: Mapping[str, Any], job: Job, tally: Tally | None, verdict: Mapping[str, Any]) -> dict[str, Any]:
    if document.get("status") != "done":
        return _without_run(job, tally)
    stop = document.get("stop") or {}
    found = {"stop": str(stop.get("reason", "")), "message": str(stop.get("detail", ""))}
    if not document.get("result") and verdict.get("status") == "not_counted":
        return {**found, "category": Category.NOT_COUNTED, "message": str(verdict.get("reason"))}
    return {**found, "category": Category.COUNTED}


def _bound(result: Mapping[str, Any]) -> str:
    judgement = (result.get("performance") or {}).get("judgement") or {}
    return str(judgement.get("submission") or "")


def _ratio(result: Mapping[str, Any], baseline: str) -> Ratio | None:
    one = (result.get("speedup") or {}).get(baseline)
    return Ratio(float(one["median"]), float(one["low"]), float(one["high"])) if one else None


COLUMNS = (
    *("job", "operator", "level", "model", "category", "stop", "message", "status", "final", "correct"),
    *("speedup_compile", "speedup_compile_low", "speedup_compile_high"),
    *("speedup_eager", "speedup_eager_low", "speedup_eager_high"),
    *(
        "bound",
        "submission_ms",
        "compile_ms",
        "eager_ms",
        "turns",
        "cost_usd",
        "input_tokens",
        "output_tokens",
        "work_s",
    ),
    *(
        "cpu_s",
        "attempts",
        "infrastructure_failures",
        "held_s",
        "rules",
        "isolation",
        "device",
        "source",
        "sha256",
        "run",
    ),
)


def as_csv(found: Iterable[Row], source: str) -> str:
    """Return results.csv: a line a job; `source` is where the operators come from."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in found:
        writer.writerow({**_cells(row), "source": source})
    return text.getvalue()


def _cells(row: Row) -> dict[str, Any]:
    def pairs(values: Mapping[str, Any]) -> str:
        return "; ".join(f"{key} {value}" for key, value in values.items())

    ratios: dict[str, Any] = {}
    for name, one in (("compile", row.over_compile), ("eager", row.over_eager)):
        if one is not None:
            ratios |= {f"speedup_{name}": one.median}
            ratios |= {f"speedup_{name}_low": one.low, f"speedup_{name}_high": one.high}
    return {
        **{key: getattr(row, key) for key in ("job", "operator", "level", "model", "stop", "status", "bound", "turns")},
        **{
            key: getattr(row, key)
            for key in ("cost_usd", "input_tokens", "output_tokens", "work_s", "attempts", "cpu_s")
        },
        **{key: getattr(row, key) for key in ("isolation", "device", "sha256", "run")},
        **{"category": row.category.value, "message": " ".join(row.message.split())},
        **{"final": int(row.final), "correct": int(row.correct), "infrastructure_failures": row.failures},
        **ratios,
        **{f"{side}_ms": value for side, value in row.latency_ms.items() if f"{side}_ms" in COLUMNS},
        **{"held_s": pairs(row.held), "rules": pairs(row.rules)},
    }
