"""What a person asked of a batch, held against what it was begun with: one batch has one set of rules."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cuda_agent import __version__
from cuda_agent.batch.batch_dir import BatchDir, load
from cuda_agent.batch.jobs import Job, first_of, jobs_of, plan
from cuda_agent.batch.listing import Listing
from cuda_agent.batch.standing import Stand, Tally, chosen, document_of, stand_of
from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError

_NOT_COMPARED = frozenset({"operator", "run_dir", "model", "gpu"})
_MOST_NAMED = 5


@dataclass(frozen=True)
class Order:
    """The operators, the models and the settings of all runs."""

    listing: Listing
    models: tuple[str, ...]
    settings: Settings
    """`operator`, `model` and `run_dir` differ from run to run and are not read."""
    source: str
    """Where the operators come from."""
    rerun: tuple[str, ...] = ()
    """Jobs that ended and are to be begun anew."""


@dataclass(frozen=True)
class Plan:
    """What the batch is about from now on."""

    document: Mapping[str, Any]
    """batch.json."""
    jobs: tuple[Job, ...]


def rules_of(settings: Settings) -> dict[str, Any]:
    """Return the settings that all runs of a batch share."""
    return {key: value for key, value in settings.model_dump(mode="json").items() if key not in _NOT_COMPARED}


def place(batch: BatchDir, order: Order, found: Mapping[str, Tally]) -> Plan:
    """Begin a batch, or go on with one; jobs may be added, the others must be as they were. batch.json is written.

    Raises:
        ConfigError: the order is for another batch; the sentence names what differs.
        DiskError: the folder could not be written.
    """
    before = load(batch.path)
    earlier = jobs_of(before) if before is not None else []
    jobs = plan(order.listing.operators, order.models, before=earlier)
    rules = rules_of(order.settings)
    anew: list[Job] = []
    if before is not None:
        _refuse_other_rules(batch, before["settings"], rules)
        anew = chosen(batch, jobs, dict(found), order.rerun) if order.rerun else []
        _refuse_other_operators(batch, earlier, jobs, {job.identity for job in anew})
    document = {
        **({"created": _now()} if before is None else before),
        "versions": {"cuda-agent": __version__},
        "settings": rules,
        "models": list(order.models),
        "root": str(order.listing.root),
        "source": order.source,
        "left_out": list(order.listing.left_out),
        "jobs": [job.as_json() for job in jobs],
        "status": "running",
        "message": "",
    }
    batch.save(document)
    for job in anew:
        if (tally := found.get(job.name)) is not None:
            tally.last = None  # a file that was refused is tried again
        if stand_of(batch, job, tally) is Stand.FINISHED or _changed(batch, job):
            batch.set_aside(job.name)
    return Plan(document, tuple(jobs))


def _refuse_other_rules(batch: BatchDir, written: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    before = {**_defaults(), **written}
    differing = [key for key in sorted(before.keys() | now.keys()) if before.get(key) != now.get(key)]
    if differing:
        shown = ", ".join(f"{key} {_shown(before.get(key))}, now {_shown(now.get(key))}" for key in differing)
        raise ConfigError(
            f"The batch {str(batch.path)!r} was begun with other settings ({shown});"
            " give the same, or name another folder with --batch-dir."
        )


def _defaults() -> dict[str, Any]:
    """Return the rules of one who chooses nothing; a batch may be older than a setting, which was so for it then."""
    return rules_of(Settings(operator=Path()))


def _refuse_other_operators(
    batch: BatchDir, before: Sequence[Job], now: Sequence[Job], anew: set[tuple[str, str]]
) -> None:
    there = {job.identity: job for job in now}
    missing = [job.name for job in before if job.identity not in there]
    changed = [job.name for job in now if job.identity not in anew and _changed(batch, job)]
    for names, what in (
        (missing, "are not among those named now"),
        (changed, "changed since their runs began (--rerun NAME begins one anew)"),
    ):
        if names:
            raise ConfigError(
                f"Operators of the batch {str(batch.path)!r} {what}: {first_of(names, _MOST_NAMED)};"
                " name them as before, or another folder with --batch-dir."
            )


def _changed(batch: BatchDir, job: Job) -> bool:
    document = document_of(batch, job)
    return document is not None and (document.get("operator") or {}).get("sha256") != job.sha256


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
