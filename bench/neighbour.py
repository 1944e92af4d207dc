"""Whether final verdicts on one GPU move when the GPU beside it is fully loaded.

    python -m bench.neighbour [--target cuda|cpu] [--repeats N] [--limit-s S] [--append FILE] [--operators FOLDER]
    python -m bench.neighbour --summary FILE

The verdicts are those of bench/null_effect.py where nothing has changed (`same`), on the first GPU that may be used.
Each operator is judged in pairs, the second GPU idle and loaded by half-precision products and copies, in the order
idle, loaded, loaded, idle, ..., so that what drifts meets both alike. On `cpu` two cores stand in for the GPUs.
Lines of JSON go to FILE, so that several runs add up. Compared are the medians of `ms` (a call of the baseline) and of
`ratio` (submission to baseline), over pairs, each with a 95 % bootstrap interval. The exit code is 1 where medians are
further apart than 0.5 %, a verdict was a win, or the second device was not idle and loaded as it should have been.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from bench.judgements import Judged, Line, keep, prepared, read
from bench.load import Load, Target, busyness, sampled
from bench.neighbour_table import IDLE, LOADED, faults, summary
from bench.null_effect import add_options, chosen
from bench.revision import commit

from cuda_agent.sandbox.gpus import listed, visible
from cuda_agent_judge.gpu import same

USAGE, INTERRUPTED = 2, 130


class TooFew(Exception):
    """There are no two devices; the message says what to do."""


def main(judged: Judged | None = None) -> int:
    """Judge until all pairs are done or time is up; print what came of all that is in the file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, append=Path("neighbour.jsonl"), repeats=2)
    parser.set_defaults(target="cuda")
    options = parser.parse_args()
    if not options.summary:
        try:
            measure(options, *devices(options.target), judged)
        except TooFew as error:
            print(error, file=sys.stderr)
            return USAGE
        except KeyboardInterrupt:
            return INTERRUPTED
    lines = [line for path in options.summary or [options.append] for line in read(path) if "neighbour" in line]
    return told(lines if options.summary else [line for line in lines if line["target"] == options.target])


def told(lines: Sequence[Line]) -> int:
    """Print a summary for each target; returns the exit code."""
    wrong = False
    for target in sorted({line["target"] for line in lines}):
        mine = [line for line in lines if line["target"] == target]
        print(summary(mine) + "\n")
        wrong = wrong or bool(faults(mine))
    return int(wrong)


def devices(target: Target) -> tuple[str, str]:
    """The UUID of the GPU (or the core) that is judged on, and the one beside it.

    Raises:
        TooFew: there is only one that may be used, or none.
    """
    if target == "cpu":
        cores = sorted(os.sched_getaffinity(0))
        if len(cores) < 2:
            raise TooFew("two cores are needed, and this process may use one: see taskset, or take another machine")
        return str(cores[0]), str(cores[1])
    gpus = listed()
    usable = visible(gpus, os.environ)
    if len(usable) < 2:
        leaves = f"of {len(gpus)} that nvidia-smi lists $CUDA_VISIBLE_DEVICES leaves {len(usable)}"
        raise TooFew(f"two GPUs are needed, and {leaves}: take a machine that has them, or two cores (--target cpu)")
    return usable[0], usable[1]


def called(target: Target, device: str) -> str:
    """A device's name for a reader."""
    return f"core {device}" if target == "cpu" else device


def measure(options: argparse.Namespace, on: str, beside: str, judged: Judged | None = None) -> None:
    """Append a line for each verdict on a device, the one beside it now idle and now loaded, as long as any is due.

    Raises:
        SystemExit: the judge or the load failed, or is not where it should be.
    """
    end = time.monotonic() + options.limit_s
    sources = chosen(options)
    if options.target == "cpu":
        os.sched_setaffinity(0, {int(on)})  # and all that is started
    judged = judged or Judged(gpu=on if options.target == "cuda" else "")
    with tempfile.TemporaryDirectory(prefix="neighbour-") as folder, judged, Neighbour(options.target, beside) as other:
        Path(folder).chmod(0o755)
        while time.monotonic() < end:
            done = [line for line in read(options.append) if line["target"] == options.target]
            next_one = following(done, list(sources), options.repeats)
            if next_one is None:
                break
            name, state = next_one
            place = prepared(Path(folder) / name, sources[name], options.target)
            about = {"operator": name, "kind": "same", "target": options.target, "commit": commit()}
            about["on"] = called(options.target, on)
            line = other.observed(state, partial(judged.line, place, "same", about))
            if options.target == "cuda" and not same(on, line["gpu"]):
                raise SystemExit(f"{on} was to be judged on, and {line['gpu']} was")
            keep(options.append, line)


def following(done: Sequence[Line], names: Sequence[str], repeats: int) -> tuple[str, str] | None:
    """The operator and the neighbour's state that come next, None where all has its pairs: begun ones come first."""
    counts = Counter((line["operator"], line.get("neighbour", "")) for line in done)
    made = {name: (counts[name, IDLE], counts[name, LOADED]) for name in names}
    open_ones = [name for name in names if min(made[name]) < repeats]
    if not open_ones:
        return None
    name = min(open_ones, key=lambda name: (made[name][0] == made[name][1], min(made[name])))
    idle, loaded = made[name]
    if idle != loaded:
        return name, IDLE if idle < loaded else LOADED
    return name, (IDLE, LOADED)[(list(names).index(name) + idle) % 2]


class Neighbour:
    """The other device: idle, or loaded by a process that ends at the end of the `with` block, or with this one."""

    def __init__(self, target: Target, device: str, make: Callable[[Target, str], Load] = Load) -> None:
        self._target: Target = target
        self._device = device
        self._make = make
        self._stack = ExitStack()
        self._load: Load | None = None
        self._percent = busyness(target, device)

    def __enter__(self) -> "Neighbour":
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def observed(self, state: str, work: Callable[[], Line]) -> Line:
        """Have something done in a state of this device; the line also says how busy it was meanwhile.

        Raises:
            SystemExit: the load could not be brought about or did not last.
        """
        if state == LOADED and self._load is None:
            self._load = self._stack.enter_context(self._make(self._target, self._device))
        elif state == IDLE:
            self._stack.close()
            self._load = None
        since = time.monotonic()
        with sampled(self._percent) as busy:
            line = work()
        seen: Line = {"neighbour": state, "beside": called(self._target, self._device)}
        seen["busy"] = round(statistics.fmean(busy), 1) if busy else None
        if self._load is not None:
            seen |= self._load.rates(since, time.monotonic())
        return line | seen


if __name__ == "__main__":
    raise SystemExit(main())
