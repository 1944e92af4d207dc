"""A folder of operators whose runs are carried out by the stand-in, and everything a batch needs around them."""

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cuda_agent.batch.conduct import Means, Watcher
from cuda_agent.batch.faults import Verdict
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.listing import Selection, find
from cuda_agent.batch.local import LocalEngine
from cuda_agent.batch.order import Order
from cuda_agent.batch.results import Row
from cuda_agent.batch.running import Halt, Patience
from cuda_agent.batch.whole import Outcome, carry_out
from cuda_agent.config import Settings

PROGRAM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("stand_in.py")))
OPERATOR = "class Model:\n    pass\n\n\ndef get_inputs():\n    return []\n\n\n# does: {}\n"


@dataclass
class Heard:
    """A watcher that remembers."""

    lines: list[str] = field(default_factory=list)
    began_: list[str] = field(default_factory=list)
    most_at_once: int = 0
    running: set[str] = field(default_factory=set)
    left: int = 0
    on_tick: Callable[[], None] = lambda: None

    def planned(self, *, total: int, left: int) -> None:
        self.left = left

    def began(self, job: Job, run: Path, *, resumed: bool) -> None:
        self.began_.append(f"{job.name}{' again' if resumed else ''}")
        self.running.add(job.name)
        self.most_at_once = max(self.most_at_once, len(self.running))

    def ended(self, job: Job, verdict: Verdict, document: Mapping[str, Any] | None, *, again: bool) -> None:
        self.running.discard(job.name)

    def tick(self) -> None:
        self.on_tick()

    def line(self, text: str) -> None:
        self.lines.append(text)


@dataclass
class Field:
    """Where the operators are, and where the batch goes."""

    root: Path
    heard: Heard = field(default_factory=Heard)

    @property
    def operators(self) -> Path:
        return self.root / "operators"

    @property
    def batch(self) -> Path:
        return self.root / "batch"

    def lay(self, **does: str) -> None:
        """Write an operator for each name; the word says what its run does."""
        self.operators.mkdir(exist_ok=True)
        for name, word in does.items():
            (self.operators / f"{name}.py").write_text(OPERATOR.format(word))

    def starts(self, name: str) -> list[str]:
        """What was started for an operator, oldest first."""
        file = self.operators / "starts" / name
        return [line.split()[0] for line in file.read_text().splitlines()] if file.exists() else []

    def carry_out(
        self,
        *,
        workers: int = 2,
        gpus: tuple[str, ...] = (),
        models: tuple[str, ...] = ("builtin",),
        selection: Selection | None = None,
        rerun: tuple[str, ...] = (),
        settings: Mapping[str, Any] | None = None,
        halt: Callable[[], Halt] = lambda: Halt.NO,
        watcher: Watcher | None = None,
        **means: Any,
    ) -> Outcome:
        self.heard = Heard(on_tick=self.heard.on_tick)
        listing = find(self.operators, selection or Selection())
        chosen = Settings(operator=self.operators, **(settings or {}))
        order = Order(listing, models, chosen, "a test", rerun)
        means.setdefault("program", PROGRAM)
        means.setdefault("patience", Patience(ending_s=10.0, locked_s=10.0))
        return carry_out(
            self.batch,
            order,
            Means(settings=chosen, stopping=halt, **means),
            LocalEngine(workers, gpus),
            watcher or self.heard,
        )


def by_name(outcome: Outcome) -> dict[str, Row]:
    return {row.job: row for row in outcome.results.rows}
