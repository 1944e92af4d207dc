"""Brings a batch to its end: begins jobs while there is room, hears how they ended, tries again, pauses or stops."""

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

from cuda_agent.batch import batch_dir, command
from cuda_agent.batch.batch_dir import AttemptEnded, BatchDir
from cuda_agent.batch.faults import Fault, Verdict, judge
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.placing import Engine
from cuda_agent.batch.running import Attempt, Ended, Halt, Patience
from cuda_agent.batch.standing import Tally, document_of
from cuda_agent.config import Settings
from cuda_agent.files import DiskError, LineFile

_TICK_S = 0.25
_LEAST_STREAK = 5
_MOST_MESSAGE = 4000


class End(StrEnum):
    """Why a batch came to its end."""

    DONE = "done"
    """Nothing is left to do."""
    PAUSED = "paused"
    """Something would fail every run; the same command goes on when it is mended."""
    INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class Ending:
    """How a batch came to its end."""

    end: End
    message: str = ""


class Watcher(Protocol):
    """Somebody who watches; it must not raise."""

    def planned(self, *, total: int, left: int) -> None:
        """Hear how many jobs there are, and how many of them are left to do."""
        ...

    def began(self, job: Job, run: Path, *, resumed: bool) -> None:
        """Hear that a job's run begins or goes on."""
        ...

    def ended(self, job: Job, verdict: Verdict, document: Mapping[str, Any] | None, *, again: bool) -> None:
        """Hear how an attempt ended; `again`: it will be tried again. `document` is run.json."""
        ...

    def tick(self) -> None:
        """Look at what runs, several times a second."""
        ...

    def line(self, text: str) -> None:
        """Show one line."""
        ...


@dataclass(frozen=True)
class Means:
    """What runs are made with."""

    settings: Settings
    program: Sequence[str] = command.PROGRAM
    """The command in front of `optimize ...` and `resume ...`."""
    retries: int = 2
    """So often an attempt that the infrastructure ended is made again."""
    patience: Patience = field(default_factory=Patience)
    stopping: Callable[[], Halt] = lambda: Halt.NO
    """Asked several times a second."""
    no_room: Callable[[], str] = lambda: ""
    """Return a sentence where there is too little room on a disk to begin a run; "" where there is enough."""


@dataclass
class Conductor:
    """One process's work on a batch."""

    batch: BatchDir
    log: LineFile
    """attempts.jsonl, locked."""
    engine: Engine
    means: Means
    watcher: Watcher
    tallies: dict[str, Tally]
    _todo: deque[Job] = field(init=False, default_factory=deque)
    _running: dict[str, tuple[Job, bool]] = field(init=False, default_factory=dict)
    """By name, and whether it was resumed."""
    _failures: dict[str, int] = field(init=False, default_factory=dict)
    """Of the infrastructure, in this process, by job."""
    _streak: set[str] = field(init=False, default_factory=set)
    """Jobs that the infrastructure failed since the last run came to an end."""
    _spoiled: set[str] = field(init=False, default_factory=set)
    """Jobs whose run folder cannot be gone on with."""
    _paused: str = field(init=False, default="")
    _told: Halt = field(init=False, default=Halt.NO)

    def conduct(self, jobs: Sequence[Job]) -> Ending:
        """Carry out these jobs; what runs when this raises is ended by leaving the engine's `with` block.

        Raises:
            DiskError: the batch's own files could not be written.
        """
        self._todo.extend(jobs)
        while True:
            stopping = self.means.stopping()
            if stopping is not Halt.NO:
                self._stop(stopping)
            elif not self._paused:
                self._begin_what_fits()
            if not self._running and (not self._todo or self._paused or stopping is not Halt.NO):
                break
            for ended in self.engine.ended(_TICK_S):
                self._settle(ended)
            self.watcher.tick()
        if self._paused:
            return Ending(End.PAUSED, self._paused)
        return Ending(End.INTERRUPTED if self._todo else End.DONE)

    def _stop(self, how: Halt) -> None:
        if how <= self._told:
            return
        self._told = how
        self.engine.halt(how)
        what = "end in order, the best of each gets its final verdict (interrupt again to leave at once)"
        if self._running:
            now = what if how is Halt.IN_ORDER else "end at once"
            self.watcher.line(f"Interrupted: what runs ({len(self._running)}) will {now}.")

    def _begin_what_fits(self) -> None:
        while self._todo and len(self._running) < self.engine.slots:
            if sentence := self.means.no_room():
                self._pause(sentence)
                return
            try:
                self._begin(self._todo[0])
            except DiskError as error:
                self._pause(str(error))
                return
            self._todo.popleft()

    def _begin(self, job: Job) -> None:
        run = self.batch.run(job.name)
        if job.name in self._spoiled:
            self._spoiled.discard(job.name)
            self.batch.set_aside(job.name)
        resumed = document_of(self.batch, job) is not None
        if resumed:
            argv = command.go_on(self.means.program, run)
        else:
            self.batch.discard_unborn(job.name)
            argv = command.begin(self.means.program, self.means.settings, job, run)
        environment = command.environment(self.means.settings)
        self.engine.begin(
            Attempt(job.name, argv, run, self.batch.log(job.name), environment, patience=self.means.patience)
        )
        self._running[job.name] = (job, resumed)
        self.watcher.began(job, run, resumed=resumed)

    def _settle(self, ended: Ended) -> None:
        job, resumed = self._running.pop(ended.job)
        document = document_of(self.batch, job)
        verdict = judge(ended, document, resumed=resumed, stopping=self.means.stopping() is not Halt.NO)
        self._write_down(job, ended, verdict)
        again = verdict.fault in (Fault.BLOCKING, Fault.STOPPED)
        if verdict.fault is Fault.INFRASTRUCTURE:
            again = self._failed(job, ended, verdict, resumed=resumed)
        else:
            self._streak.clear()
        if verdict.fault is Fault.BLOCKING:
            self._pause(verdict.message)
        if again:
            self._todo.append(job)
        self.watcher.ended(job, verdict, document, again=again)

    def _failed(self, job: Job, ended: Ended, verdict: Verdict, *, resumed: bool) -> bool:
        """Count a failure of the infrastructure; return whether the job is tried again."""
        count = self._failures[job.name] = self._failures.get(job.name, 0) + 1
        if resumed and ended.kind == "config":
            self._spoiled.add(job.name)  # what is left of the run cannot be gone on with
        self._streak.add(job.name)
        if len(self._streak) >= max(_LEAST_STREAK, 2 * self.engine.slots):
            self._pause(f"The last {len(self._streak)} runs failed, whatever their operators: {verdict.message}")
        return count <= self.means.retries

    def _pause(self, sentence: str) -> None:
        if not self._paused:
            self._paused = sentence
            self.watcher.line(f"No new runs are begun: {sentence}")

    def _write_down(self, job: Job, ended: Ended, verdict: Verdict) -> None:
        line = AttemptEnded(
            job=job.name,
            sha256=job.sha256,
            fault=verdict.fault,
            exit_code=ended.exit_code,
            message=verdict.message[:_MOST_MESSAGE],
            wall_s=round(ended.wall_s, 3),
            ended=datetime.now(UTC).isoformat(timespec="seconds"),
            cpu_s=round(ended.cpu_s, 3),
        )
        try:
            batch_dir.append(self.log, line)
        except DiskError as error:  # the run's own folder says how it ended
            self._pause(str(error))
        self.tallies.setdefault(job.name, Tally()).add(line)
