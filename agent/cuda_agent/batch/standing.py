"""How each job stands, read from what is on disk: the run's own run.json, and the attempts that left no run."""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from cuda_agent.batch.batch_dir import AttemptEnded, BatchDir, attempts
from cuda_agent.batch.faults import Fault
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.listing import matches


class Stand(StrEnum):
    """What is left to do for a job."""

    OPEN = "open"
    FINISHED = "finished"
    REFUSED = "refused"
    """Its operator cannot be used."""


@dataclass
class Tally:
    """The attempts at one job."""

    attempts: int = 0
    failures: int = 0
    """Of them, those that the infrastructure ended."""
    cpu_s: float = 0.0
    last: AttemptEnded | None = None

    def add(self, ended: AttemptEnded) -> None:
        """Count one more."""
        self.attempts += 1
        self.failures += ended.fault == Fault.INFRASTRUCTURE
        self.cpu_s += ended.cpu_s
        self.last = ended


def tallies(batch: BatchDir) -> dict[str, Tally]:
    """Count the attempts that ended, by job."""
    found: dict[str, Tally] = {}
    for ended in attempts(batch.path):
        found.setdefault(ended.job, Tally()).add(ended)
    return found


def document_of(batch: BatchDir, job: Job) -> dict[str, Any] | None:
    """Return the run.json of a job; None where there is none that can be read."""
    try:
        document = json.loads((batch.run(job.name) / "run.json").read_bytes())
    except (OSError, ValueError):
        return None
    return document if isinstance(document, dict) else None


def stand_of(batch: BatchDir, job: Job, tally: Tally | None) -> Stand:
    """Say what is left to do."""
    if (document_of(batch, job) or {}).get("status") == "done":
        return Stand.FINISHED
    last = tally.last if tally else None
    if last is not None and last.fault == Fault.OPERATOR and last.sha256 == job.sha256:
        return Stand.REFUSED
    return Stand.OPEN


def outcome_word(batch: BatchDir, job: Job, tally: Tally | None) -> str:
    """Return the one word that `--rerun` may name: a stop reason, or whose fault it was."""
    document = document_of(batch, job) or {}
    if document.get("status") == "done":
        return str((document.get("stop") or {}).get("reason", ""))
    last = tally.last if tally else None
    return last.fault if last else ""


def chosen(batch: BatchDir, jobs: Iterable[Job], found: dict[str, Tally], filters: Iterable[str]) -> list[Job]:
    """Return the jobs that one of these names: by a pattern or part of the name, or by how they ended."""
    wanted = tuple(filters)
    return [
        job
        for job in jobs
        if any(
            matches(one, job.key, job.name) or one == outcome_word(batch, job, found.get(job.name)) for one in wanted
        )
    ]
