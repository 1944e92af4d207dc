"""Writes what came out of a batch, as far as it is: batch.json, results.csv, results.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cuda_agent import files
from cuda_agent.batch import tables
from cuda_agent.batch.batch_dir import BatchDir, load
from cuda_agent.batch.brief import brief
from cuda_agent.batch.conduct import Ending
from cuda_agent.batch.jobs import jobs_of
from cuda_agent.batch.results import Row, as_csv, rows
from cuda_agent.batch.standing import tallies
from cuda_agent.errors import ConfigError


@dataclass(frozen=True)
class Results:
    """The rows of a batch and what is said of them."""

    document: Mapping[str, Any]
    """batch.json."""
    rows: tuple[Row, ...]
    groups: tuple[tables.Group, ...]
    conditions: str

    @property
    def summary(self) -> str:
        """What fits on a terminal."""
        return "\n".join(part for part in (tables.apart(self.rows), brief(self.groups, self.conditions)) if part)

    @property
    def markdown(self) -> str:
        """All of results.md."""
        head = f"Status: {self.document['status']}. {self.document.get('message') or ''}".strip()
        parts = ["# Results", "", head, "", tables.summary_tables(self.groups, self.conditions)]
        parts += [tables.apart(self.rows), "## Each operator", "", tables.operator_table(self.rows, self.conditions)]
        return "\n".join(parts)


def results_of(document: Mapping[str, Any], found: Sequence[Row]) -> Results:
    """Say what these rows come to."""
    conditions = tables.conditions(found, document["settings"], str(document["source"]))
    groups = tables.grouped(found)
    full = {**document, "conditions": conditions, "results": tables.as_json(groups)}
    return Results(full, tuple(found), tuple(groups), conditions)


def write(
    batch: BatchDir, document: Mapping[str, Any], found: Sequence[Row], ending: Ending, engine: Mapping[str, str]
) -> Results:
    """Write the results and how the batch stands.

    Raises:
        DiskError: there was no room; batch.json says how the batch stands, if anything could be written.
    """
    batch.free_reserve()
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    standing = {"status": str(ending.end), "message": ending.message, "finished": finished, "engine": dict(engine)}
    results = results_of({**document, **standing}, found)
    batch.save(results.document)
    files.replace(batch.csv, as_csv(found, str(document["source"])).encode("utf-8", "backslashreplace"))
    files.replace(batch.markdown, results.markdown.encode("utf-8", "backslashreplace"))
    return results


def read(folder: Path) -> Results:
    """Read a batch's results from its runs as they are now; the batch may be at work.

    Raises:
        ConfigError: it is no batch's folder, or a damaged one.
    """
    document = load(folder)
    if document is None:
        raise ConfigError(f"{str(folder)!r} is not a batch's folder: it holds no batch.json; name one under runs/.")
    batch = BatchDir(folder)
    return results_of(document, [*rows(batch, jobs_of(document), tallies(batch))])
