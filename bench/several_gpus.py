"""The same batch on one GPU and on all of them, and what a killed run costs: throughput, GPUs held, verdicts.

    python -m bench.several_gpus OPERATORS [--limit 16] [--max-turns 6] [--source TEXT] [--folder DIR]

OPERATORS is what `cuda-agent batch` takes; model `builtin`. First the batch with the first GPU alone, then with all
GPUs, each with so many runs at once for each GPU; then a few operators more once, of which the first run on the last
GPU is killed with -9. Folders that are there already are gone on with, so several calls add up. No batch has the
machine's cache ($CUDA_AGENT_CACHE is `none`), or the second would find what the first compiled.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.batch.metrics import metrics
from cuda_agent.batch.reporting import read
from cuda_agent.batch.results import Row
from cuda_agent.batch.tables import duration, table
from cuda_agent.sandbox.cache import NONE, VARIABLE
from cuda_agent.sandbox.gpus import listed, visible

KILLED_AMONG = 4


@dataclass(frozen=True)
class Batch:
    """One batch as it is to be started."""

    operators: str
    folder: Path
    gpus: tuple[str, ...]
    options: tuple[str, ...]
    workers: int

    @property
    def command(self) -> list[str]:
        """Its command line."""
        line = [sys.executable, "-m", "cuda_agent", "batch", self.operators, "--batch-dir", str(self.folder)]
        line += ["--workers", str(self.workers), "--plain", *self.options]
        return [*line, "--gpus", ",".join(self.gpus)] if self.gpus else line


def main() -> int:
    """Carry the batches out and print; the exit code is 1 where verdicts differ or a killed run was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators")
    parser.add_argument("--limit", type=int, default=16)
    parser.add_argument("--workers-a-gpu", type=int, default=4)
    parser.add_argument("--max-turns", type=int, default=6)
    parser.add_argument("--target", default="cuda", choices=["cpu", "cuda"])
    parser.add_argument("--source", default="", help="where the operators come from, with its commit")
    parser.add_argument("--folder", type=Path, help="where the batches go")
    options = parser.parse_args()
    gpus = tuple(visible(listed(), os.environ)) if options.target == "cuda" else ()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="cuda-agent-bench-"))
    given: tuple[str, ...] = ("--target", options.target, "--max-turns", str(options.max_turns), "--sandbox", "local")
    given += ("--source", options.source) if options.source else ()
    found = []
    for number in dict.fromkeys((1, max(1, len(gpus)))):
        limited = (*given, "--limit", str(options.limit))
        workers = number * options.workers_a_gpu
        batch = Batch(options.operators, folder / f"with_{number}", gpus[:number], limited, workers)
        carry_out(batch)
        found.append((number, read(batch.folder).rows))
    print("\n".join(throughput(found)))
    differing = other_classes(found[0][1], found[-1][1])
    print(f"\nOther verdicts with {found[-1][0]} than with one: {', '.join(differing) or 'none'}.")
    killed = (*given, "--limit", str(KILLED_AMONG))
    lost = with_a_kill(Batch(options.operators, folder / "killed", gpus, killed, max(2, len(gpus))))
    print(lost or "A run that was killed on the last GPU was gone on with and ended.")
    return int(bool(differing or lost))


def carry_out(batch: Batch) -> int:
    """Run it to its end without the machine's cache; returns its exit code."""
    return subprocess.run(batch.command, check=False, env={**os.environ, VARIABLE: NONE}).returncode


def throughput(found: Sequence[tuple[int, Sequence[Row]]]) -> list[str]:
    """Return the table: a line for each number of GPUs, and how much faster the last is than the first."""
    head = ["GPUs", "runs", "wall", "runs/min", "times one", "each GPU held", "waited for GPUs", "verdicts"]
    lines = []
    first = 0.0
    for number, rows in found:
        numbers = metrics(rows)
        rate = 60 * len(rows) / numbers.elapsed_s if numbers.elapsed_s else 0.0
        first = first or rate
        held: dict[str, float] = {}
        for row in rows:
            held[row.gpu] = held.get(row.gpu, 0.0) + row.held.get("device_s", 0.0)
        shares = ", ".join(f"{seconds / numbers.elapsed_s:.0%}" for _, seconds in sorted(held.items()) if seconds)
        waited = sum(row.held.get("device_wait_s", 0.0) for row in rows)
        verdicts = ", ".join(f"{count} {what}" for what, count in sorted(Counter(map(class_of, rows)).items()))
        lines.append(
            [
                *(str(number), str(len(rows)), duration(numbers.elapsed_s), f"{rate:.2f}", f"{rate / first:.2f}"),
                *(shares, duration(waited), verdicts),
            ]
        )
    return table(head, lines)


def class_of(row: Row) -> str:
    """Name what became of an operator: the status of its kernel, or why it has none."""
    return row.status or row.stop or row.category.value


def other_classes(one: Sequence[Row], other: Sequence[Row]) -> list[str]:
    """Name the operators whose verdict is of another class in the second batch."""
    known = {row.operator: class_of(row) for row in one}
    return [
        f"{row.operator} ({known[row.operator]}, then {class_of(row)})"
        for row in other
        if row.operator in known and known[row.operator] != class_of(row)
    ]


def with_a_kill(batch: Batch) -> str:
    """Carry a batch out, kill a run on its last GPU once; returns what was lost by that, "" where nothing was."""
    done = threading.Event()
    killed: list[str] = []
    killer = threading.Thread(target=_kill_one, args=(batch, done, killed))
    killer.start()
    code = carry_out(batch)
    done.set()
    killer.join()
    rows = read(batch.folder).rows
    if not killed:
        return "No run was at work on the last GPU: nothing was killed."
    ended = next((row for row in rows if row.job == killed[0]), None)
    if ended is None or not ended.stop or ended.attempts < 2:
        return f"{killed[0]} was killed and is lost (exit code {code}): {ended}"
    return ""


def _kill_one(batch: Batch, done: threading.Event, killed: list[str]) -> None:
    """Kill the first run on the last GPU that has done something."""
    while not done.wait(0.2) and not killed:
        for log in sorted((batch.folder / "runs").glob("*/trajectory.jsonl")):
            if b'"type": "observation"' not in log.read_bytes():
                continue
            for pid in _programs_of(log.parent, batch.gpus[-1] if batch.gpus else ""):
                os.kill(pid, signal.SIGKILL)
                killed.append(log.parent.name)
                return


def _programs_of(run: Path, gpu: str) -> list[int]:
    """Return the processes that carry out this run on this GPU."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            line = Path(f"/proc/{entry}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if f"--run-dir={run}" in line and "optimize" in line and (not gpu or f"--gpu={gpu}" in line):
            found.append(int(entry))
    return found


if __name__ == "__main__":
    raise SystemExit(main())
