"""Carry out batches of more and more trivial runs and print what the batch's own process takes of memory.

    python -m bench.batch_memory [--jobs 50 500] [--workers 4]

Each run is the stand-in of the tests, which behaves like `cuda-agent optimize` towards the batch; each batch is a
process of its own, which reports its resident set after the first tenth of its runs and at its end.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.unit.agent.batch.field import Field, Heard


def main() -> int:
    """Print a line a batch."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", type=int, nargs="+", default=[50, 500])
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.one, options.workers)
    print("| runs | resident after a tenth, MB | at the end, MB | most, MB |\n|---|---|---|---|")
    for count in options.jobs:
        command = [sys.executable, "-m", "bench.batch_memory", "--one", str(count), "--workers", str(options.workers)]
        subprocess.run(command, check=True)
    return 0


def one(count: int, workers: int) -> int:
    """Carry out one batch in this process."""
    with tempfile.TemporaryDirectory() as folder:
        field = Field(Path(folder))
        field.lay(**{f"op_{number}": "win" for number in range(count)})
        seen: list[float] = []
        heard = Heard(on_tick=lambda: seen.append(resident_mb()))
        outcome = field.carry_out(workers=workers, watcher=heard)
        right = sum(row.correct for row in outcome.results.rows)
        if right != count:
            print(f"only {right} of {count} runs ended well", file=sys.stderr)
            return 1
    print(f"| {count} | {seen[len(seen) // 10]:.1f} | {resident_mb():.1f} | {max(seen):.1f} |", flush=True)
    return 0


def resident_mb() -> float:
    """Return what this process has in memory now."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


if __name__ == "__main__":
    raise SystemExit(main())
