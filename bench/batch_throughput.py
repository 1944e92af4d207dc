"""How well a batch uses its GPUs: simulated models, compilers and timings, real processes, the real engine and locks.

    python -m bench.batch_throughput [--scale 0.05] [--runs-per-worker 3]

A run has a few turns: the model answers (5 to 60 s), its kernel is compiled (1 to 8 s) in one of the machine's places
to compile, and checked and timed (2 to 6 s, the last one 10 to 16 s) while nobody else has the GPU. All of it is
scaled down and slept.

`ideal` is the rate at which runs would end if none ever waited for another: so many at once as there are workers, or
as fast as the GPUs can take what the runs ask of them. `rate` is what the same number of workers get done while all of
them have runs, from how long a run took from its begin to its end; `in all` is the whole batch, its last runs included.
`scaling` is the share of the ideal against that of one GPU with as many workers.
"""

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.batch.local import LocalEngine
from cuda_agent.batch.placing import Engine
from cuda_agent.batch.running import Attempt, Ended

PROGRAM = (sys.executable, "-I", "-S", str(Path(__file__).with_name("simulated_run.py")))
CORES_A_GPU = 16
WORKERS_A_GPU = 4
ONE_GPU = (1, 4, 16)
GPUS = (2, 4, 8)


@dataclass(frozen=True)
class Simulated:
    """One simulated machine and what is to be done on it."""

    workers: int
    gpus: tuple[str, ...]
    plans: tuple[dict[str, Any], ...]

    @property
    def ideal_rate(self) -> float:
        """Runs a second if nobody waited for anybody."""
        alone = sum(float(second) for plan in self.plans for turn in plan["turns"] for second in turn.values())
        device = sum(float(turn["device_s"]) for plan in self.plans for turn in plan["turns"])
        return len(self.plans) * min(self.workers / alone, len(self.gpus) / device)


@dataclass(frozen=True)
class Measured:
    """What came of it."""

    wall_s: float
    took_s: tuple[float, ...]
    """From the begin of each run until the engine handed its end out."""
    holds: tuple[dict[str, Any], ...]
    """Each time that something was held, as the journal has it."""
    ended: tuple[Ended, ...]

    @property
    def busy(self) -> dict[str, float]:
        """The share of the whole time that each GPU was held, by its UUID."""
        held = Counter[str]()
        for hold in self.holds:
            held[hold["what"]] += hold["until"] - hold["since"]
        return {gpu: seconds / self.wall_s for gpu, seconds in held.items() if gpu != "build"}

    @property
    def waited_s(self) -> float:
        """For GPUs, in all."""
        return sum(float(hold["since"] - hold["asked"]) for hold in self.holds if hold["what"] != "build")


def uuids(count: int) -> tuple[str, ...]:
    """Return names of GPUs that are not there."""
    return tuple(f"GPU-{number:08x}-0000-0000-0000-000000000000" for number in range(count))


def plan(draw: random.Random, scale: float, build_places: int) -> dict[str, Any]:
    """Draw what one run does."""
    turns = [
        {
            "model_s": scale * draw.uniform(5, 60),
            "build_s": scale * draw.uniform(1, 8),
            "device_s": scale * draw.uniform(2, 6),
        }
        for _ in range(draw.randint(3, 7))
    ]
    turns[-1]["device_s"] = scale * draw.uniform(10, 16)
    return {"turns": turns, "build_places": build_places}


def simulated(workers: int, gpus: int, runs: int, *, scale: float, seed: int) -> Simulated:
    """Return a machine with as many cores as go with its GPUs, and runs for it."""
    draw = random.Random(seed)
    places = gpus * CORES_A_GPU // 2
    return Simulated(workers, uuids(gpus), tuple(plan(draw, scale, places) for _ in range(runs)))


def carried_out(case: Simulated, folder: Path, engine: Engine | None = None) -> Measured:
    """Carry all runs out and wait for their end."""
    locks, journal = folder / "locks", folder / "journal"
    locks.mkdir(parents=True)
    attempts = []
    for number, one in enumerate(case.plans):
        file = folder / f"plan{number}.json"
        file.write_text(json.dumps(one))
        command = (*PROGRAM, str(file), str(journal), str(locks))
        attempts.append(Attempt(f"run{number}", command, folder / f"run{number}", folder / f"run{number}.log"))
    began = time.monotonic()
    ended, took = _all_of(engine or LocalEngine(case.workers, case.gpus), attempts)
    wall_s = time.monotonic() - began
    lines = [json.loads(line) for line in journal.read_text().splitlines()]
    return Measured(wall_s, took, tuple(line for line in lines if "until" in line), ended)


def _all_of(engine: Engine, attempts: list[Attempt]) -> tuple[tuple[Ended, ...], tuple[float, ...]]:
    waiting, begun = list(attempts), dict[str, float]()
    ended, took = list[Ended](), list[float]()
    with engine:
        while waiting or begun:
            while waiting and len(begun) < engine.slots:
                begun[waiting[0].job] = time.monotonic()
                engine.begin(waiting.pop(0))
            for one in engine.ended(0.05):
                took.append(time.monotonic() - begun.pop(one.job))
                ended.append(one)
    return tuple(ended), tuple(took)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.04, help="seconds slept for one simulated second")
    parser.add_argument("--runs-per-worker", type=int, default=4)
    options = parser.parse_args()
    cases = [(workers, 1) for workers in ONE_GPU] + [(WORKERS_A_GPU * gpus, gpus) for gpus in GPUS]
    print("GPUs workers  runs  in all  GPU held  waited for GPUs   ideal    rate  of ideal  scaling")
    of_one = 0.0
    for workers, gpus in cases:
        runs = workers * options.runs_per_worker
        case = simulated(workers, gpus, runs, scale=options.scale, seed=7)
        with tempfile.TemporaryDirectory() as folder:
            found = carried_out(case, Path(folder) / "case")
        rate = workers * runs / sum(found.took_s)
        share = rate / case.ideal_rate
        of_one = share if (workers, gpus) == (WORKERS_A_GPU, 1) else of_one
        busy, waited_s = sum(found.busy.values()) / gpus, found.waited_s / options.scale / runs
        ideal, got = 60 * options.scale * case.ideal_rate, 60 * options.scale * rate
        scaling = f"{share / of_one:.0%}" if gpus > 1 else "-"
        print(
            f"{gpus:4} {workers:7} {runs:5} {found.wall_s / options.scale:6.0f}s {busy:9.0%} {waited_s:9.0f}s a run"
            f" {ideal:7.2f} {got:7.2f} {share:9.0%} {scaling:>8}",
            flush=True,
        )


if __name__ == "__main__":
    main()
