"""A batch from its folder to its results: the one call that the command line makes."""

from dataclasses import dataclass, replace
from pathlib import Path

from cuda_agent.batch import order as orders
from cuda_agent.batch import reporting
from cuda_agent.batch.batch_dir import BatchDir
from cuda_agent.batch.conduct import Conductor, End, Ending, Means, Watcher
from cuda_agent.batch.order import Order
from cuda_agent.batch.placing import Engine
from cuda_agent.batch.results import Category, rows
from cuda_agent.batch.standing import Stand, stand_of, tallies


@dataclass(frozen=True)
class Outcome:
    """How a batch stands when the program ends."""

    folder: Path
    ending: Ending
    results: reporting.Results

    @property
    def exit_code(self) -> int:
        """0: every operator that counts reached its target; 1: not every one; 3: something failed; 130: interrupted."""
        if self.ending.end is End.INTERRUPTED:
            return 130
        categories = {row.category for row in self.results.rows}
        if self.ending.end is End.PAUSED or Category.INFRASTRUCTURE in categories:
            return 3
        won = [row.won for row in self.results.rows if row.category is Category.COUNTED]
        return 0 if all(won) and not categories & {Category.UNUSABLE, Category.OPEN, Category.AT_LIMIT} else 1


def carry_out(
    folder: Path,
    order: Order,
    means: Means,
    engine: Engine,
    watcher: Watcher,
) -> Outcome:
    """Begin a batch or go on with it, to its end or until something stops it; nothing is left running.

    Raises:
        ConfigError: the folder is in use or holds another batch.
        DiskError: the batch's own files could not be written.
    """
    batch = BatchDir(folder.absolute())
    with batch.lock() as log:
        found = tallies(batch)
        plan = orders.place(batch, order, found)
        left = [job for job in plan.jobs if stand_of(batch, job, found.get(job.name)) is Stand.OPEN]
        watcher.planned(total=len(plan.jobs), left=len(left))
        with engine:
            described = engine.described
            ending = Conductor(batch, log, engine, means, watcher, found).conduct(left)
        results = reporting.write(batch, plan.document, [*rows(batch, plan.jobs, found)], ending, described)
    return Outcome(batch.path, _told(ending, results), results)


def _told(ending: Ending, results: reporting.Results) -> Ending:
    """Say in the ending how much is left."""
    left = sum(row.category is Category.OPEN for row in results.rows)
    if ending.end is End.DONE or not left:
        return ending
    return replace(ending, message=f"{ending.message} {left} of {len(results.rows)} are left to do.".strip())
