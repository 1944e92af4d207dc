"""Runs on the machines of a Ray cluster: a task for each, on its share of one GPU.

Ray places a task where the share of a GPU and the cores that it asks for are free, and shows it that GPU only. A share
is no time slot: runs that share a GPU take turns at timing by the machine's own locks (docs/judge.md), as without Ray.
With one run for each GPU the placement alone is exclusive. Ray itself retries nothing: a run whose machine is lost
comes back as lost, and the batch goes on with its folder elsewhere. That folder must be one that all machines see: a
mark in it tells it from another one of the same path, in which runs would be made that nobody finds.
"""

import importlib
import logging
import math
import os
import secrets
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from cuda_agent import files
from cuda_agent.batch.running import Attempt, Ended, Halt, carry_out
from cuda_agent.errors import ConfigError

RUNS_A_GPU = 4
"""While one run times, others wait for their model or compile."""
RUNS_A_MACHINE = 2
"""Without GPUs."""
INSTALL = "pip install 'cuda-agent[ray]'"
_ASK_S = 1.0
_LOOK_S = 2.0
_ANSWER_S = 10.0
_MARK = ".seen-by-all-machines"
_SEEN_S = 60.0
"""A network's file system may show what is new so much later."""


@dataclass(frozen=True)
class Shared:
    """What must be the same on every machine."""

    cuda: bool
    """Runs are for GPUs."""
    folder: str
    """Of the batch."""
    cwd: str
    """Operators may be named from here."""
    python: str
    """The driver's interpreter: elsewhere it may lie elsewhere."""
    mark: str
    """What stands in the folder, and in no other."""
    seen_s: float
    """How long that may take to be seen elsewhere."""


@dataclass(frozen=True)
class Share:
    """What one run asks of a machine."""

    gpus: float
    cpus: float

    def fits(self, resources: dict[str, float]) -> int:
        """Return how many runs a machine with these resources has room for."""
        by_cpu = math.floor(resources.get("CPU", 0.0) / self.cpus + 1e-6)
        if not self.gpus:
            return by_cpu
        # A run is on one GPU: what is left over of several does not add up.
        return min(by_cpu, int(resources.get("GPU", 0.0)) * math.floor(1 / self.gpus + 1e-6))


def share_of(nodes: list[dict[str, float]], workers: int | None, *, cuda: bool) -> Share:
    """Return what a run asks for, so that `workers` runs spread over all GPUs or, without any, over all machines."""
    if cuda:
        gpus = sum(int(node.get("GPU", 0.0)) for node in nodes)
        each = math.ceil(workers / gpus) if workers and gpus else RUNS_A_GPU
        return Share(math.floor(10_000 / each) / 10_000, 1.0)
    cpus = max((node.get("CPU", 0.0) for node in nodes), default=0.0)
    each = math.ceil(workers / len(nodes)) if workers and nodes else RUNS_A_MACHINE
    return Share(0.0, max(1.0, math.floor(cpus / each)))


class RayEngine:
    """Carries attempts out on a cluster; made by `connect`."""

    def __init__(
        self, ray: Any, workers: int | None, *, cuda: bool | None, folder: Path, seen_s: float = _SEEN_S
    ) -> None:
        """`cuda` says what runs are for; None: GPUs where the cluster has some."""
        self._ray = ray
        self._workers = workers
        self._looked = -math.inf
        self._nodes: list[dict[str, float]] = []
        nodes = self._look()
        self.cuda = any(node.get("GPU", 0.0) >= 1 for node in nodes) if cuda is None else cuda
        self._share = share_of(nodes, workers, cuda=self.cuda)
        mark = secrets.token_hex(16)
        self._shared = Shared(self.cuda, str(folder.absolute()), os.getcwd(), sys.executable, mark, seen_s)
        self._marked = False
        self._running: dict[Any, Attempt] = {}
        here = ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
            ray.get_runtime_context().get_node_id(), soft=True
        )
        self._switch = ray.remote(num_cpus=0)(_Switch).options(scheduling_strategy=here, max_restarts=-1).remote()
        self._task = ray.remote(max_retries=0)(_carried_out).options(
            num_gpus=self._share.gpus, num_cpus=self._share.cpus
        )

    @classmethod
    def connect(
        cls,
        address: str | None,
        workers: int | None = None,
        *,
        cuda: bool | None = None,
        folder: Path,
        seen_s: float = _SEEN_S,
    ) -> Self:
        """Connect to a cluster: the one at `address` or in $RAY_ADDRESS, else the one that runs on this machine.

        Raises:
            ConfigError: Ray is not installed, there is no cluster, or it has no room for a single run.
        """
        try:
            ray = importlib.import_module("ray")
            importlib.import_module("ray.util.scheduling_strategies")
        except ImportError as error:
            raise ConfigError(f"--engine ray needs Ray ({error}): {INSTALL}.") from error
        where = address or os.environ.get("RAY_ADDRESS") or "auto"
        try:
            ray.init(address=where, log_to_driver=False, logging_level=logging.ERROR, ignore_reinit_error=True)
        except (OSError, RuntimeError, ValueError, AssertionError) as error:
            named = "runs here" if where == "auto" else f"answers at {where!r}"
            raise ConfigError(
                f"No Ray cluster {named} ({str(error).splitlines()[0]}); start one with `ray start --head`, or name"
                " another with --address."
            ) from error
        _keep_quiet()
        engine = cls(ray, workers, cuda=cuda, folder=folder, seen_s=seen_s)
        if engine.slots == 0:
            what = "GPU" if engine.cuda else "cores"
            ray.shutdown()
            raise ConfigError(f"The Ray cluster has no {what} to run anything on; add machines to it.")
        return engine

    @property
    def slots(self) -> int:
        """How many attempts it has room for at once; machines come and go."""
        fits = sum(self._share.fits(node) for node in self._look())
        return min(fits, self._workers) if self._workers else fits

    @property
    def described(self) -> dict[str, str]:
        """What the batch's documents say of it."""
        nodes = self._look()
        gpus = sum(int(node.get("GPU", 0.0)) for node in nodes)
        return {"engine": "ray", "machines": str(len(nodes)), "gpus": str(gpus), "workers": str(self.slots)}

    def begin(self, attempt: Attempt) -> None:
        """Start an attempt where there is room.

        Raises:
            DiskError: the mark in the batch's folder could not be written; nothing was started.
        """
        if not self._marked:
            mark = Path(self._shared.folder, _MARK)
            files.replace(mark, self._shared.mark.encode())
            self._marked = True
        self._running[self._task.remote(attempt, self._shared, self._switch)] = attempt

    def ended(self, timeout_s: float) -> list[Ended]:
        """Return what ended since the last call; waits up to `timeout_s` for the first."""
        if not self._running:
            time.sleep(timeout_s)
            return []
        pending = list(self._running)
        done, _ = self._ray.wait(pending, num_returns=1, timeout=timeout_s)
        if done:
            done, _ = self._ray.wait(pending, num_returns=len(pending), timeout=0)
        return [self._outcome(task) for task in done]

    def _outcome(self, task: Any) -> Ended:
        attempt = self._running.pop(task)
        try:
            ended: Ended = self._ray.get(task)
        except self._ray.exceptions.RayTaskError as error:
            return Ended(attempt.job, 3, "unexpected", str(error.cause))
        except self._ray.exceptions.RayError as error:
            return Ended(attempt.job, 3, "lost", f"the machine that carried it out was lost ({type(error).__name__})")
        return ended

    def halt(self, how: Halt) -> None:
        """Have everything that runs end before its time."""
        self._switch.turn.remote(int(how))

    def _look(self) -> list[dict[str, float]]:
        """The resources of the machines that are there."""
        if time.monotonic() - self._looked > _LOOK_S:
            self._looked = time.monotonic()
            self._nodes = [node["Resources"] for node in self._ray.nodes() if node["Alive"] and _works(node)]
        return self._nodes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running:
            self.halt(Halt.AT_ONCE)
            patience = max(attempt.patience.ending_s for attempt in self._running.values())
            self._ray.wait(list(self._running), num_returns=len(self._running), timeout=patience + _ANSWER_S)
        self._ray.shutdown()


def _keep_quiet() -> None:
    """Keep what Ray says of its own processes off stdout, where nothing but results belongs; its logs have it."""
    worker: Any = importlib.import_module("ray._private.worker")
    if hasattr(worker, "print_to_stdstream"):  # it asks for no setting
        worker.print_to_stdstream = lambda *_, **__: None


def _works(node: dict[str, Any]) -> bool:
    return bool(node["Resources"].get("CPU", 0.0))


class _Switch:
    """Keeps how runs are to end, for all machines to ask."""

    def __init__(self) -> None:
        self._how = int(Halt.NO)

    def turn(self, how: int) -> None:
        self._how = max(self._how, how)

    def read(self) -> int:
        return self._how


def _carried_out(attempt: Attempt, shared: Shared, switch: Any) -> Ended:
    """Carry an attempt out on the machine where this task is."""
    halt = _asking(switch)
    missing = unshared(shared, halt)
    if missing and halt() is not Halt.NO:
        return Ended(attempt.job, 130, "interrupted", "the batch was ended before this run could begin.")
    if missing:
        where = f"{missing} on the machine {socket.gethostname()!r}"
        return Ended(attempt.job, 3, "config", f"{where}; work in a folder that all machines of the cluster share.")
    os.chdir(shared.cwd)
    if attempt.command[0] == shared.python:
        attempt = replace(attempt, command=(sys.executable, *attempt.command[1:]))
    # Ray has put into this process's environment which GPU is meant.
    gpu = (os.environ.get("CUDA_VISIBLE_DEVICES") or None) if shared.cuda else None
    return carry_out(replace(attempt, gpu=gpu), halt)


def unshared(shared: Shared, halt: Callable[[], Halt]) -> str:
    """Say what this machine does not see; "" where it sees all. Waits for the mark no longer than until a halt."""
    for path in (shared.folder, shared.cwd):
        if not os.path.isdir(path):
            return f"{path!r} is not there"
    end = time.monotonic() + shared.seen_s
    while not _is_marked(shared):
        if time.monotonic() > end or halt() is not Halt.NO:
            return f"{shared.folder!r} is another folder than the batch's"
        time.sleep(_ASK_S)
    return ""


def _is_marked(shared: Shared) -> bool:
    try:
        return Path(shared.folder, _MARK).read_text() == shared.mark
    except (OSError, ValueError):
        return False


def _asking(switch: Any) -> Callable[[], Halt]:
    ray = importlib.import_module("ray")
    known, asked = Halt.NO, -math.inf

    def halt() -> Halt:
        nonlocal known, asked
        if time.monotonic() - asked > _ASK_S:
            asked = time.monotonic()
            # Where the driver's machine does not answer, nothing has changed; if it is gone, Ray ends this task.
            with suppress(ray.exceptions.RayError):
                known = max(known, Halt(ray.get(switch.read.remote(), timeout=_ANSWER_S)))
        return known

    return halt
