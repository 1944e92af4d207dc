"""Writes what came out of a batch, as far as it is: batch.json, results.csv, results.md."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from cuda_agent import files
from cuda_agent.batch import tables
from cuda_agent.batch.batch_dir import BatchDir
from cuda_agent.batch.conduct import Ending
from cuda_agent.batch.results import Row, as_csv


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
        """The tables without a line a job."""
        parts = [tables.summary_tables(self.groups, self.conditions), tables.apart(self.rows)]
        return "\n".join(part for part in parts if part)

    @property
    def markdown(self) -> str:
        """All of results.md."""
        jobs = tables.operator_table(self.rows, self.conditions)
        head = f"Status: {self.document['status']}. {self.document.get('message') or ''}".strip()
        return "\n".join(["# Results", "", head, "", self.summary, "## Each operator", "", jobs])


def results_of(document: Mapping[str, Any], rows: Sequence[Row]) -> Results:
    """Say what these rows come to."""
    conditions = tables.conditions(rows, document["settings"], str(document["source"]))
    groups = tables.grouped(rows)
    full = {**document, "conditions": conditions, "results": tables.as_json(groups)}
    return Results(full, tuple(rows), tuple(groups), conditions)


def write(
    batch: BatchDir, document: Mapping[str, Any], rows: Sequence[Row], ending: Ending, engine: Mapping[str, str]
) -> Results:
    """Write the results and how the batch stands.

    Raises:
        DiskError: there was no room; batch.json says how the batch stands, if anything could be written.
    """
    batch.free_reserve()
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    standing = {"status": str(ending.end), "message": ending.message, "finished": finished, "engine": dict(engine)}
    results = results_of({**document, **standing}, rows)
    batch.save(results.document)
    files.replace(batch.csv, as_csv(rows, str(document["source"])).encode("utf-8", "backslashreplace"))
    files.replace(batch.markdown, results.markdown.encode("utf-8", "backslashreplace"))
    return results
