"""What a final verdict says where nothing has changed, or a known thing.

    python -m bench.null_effect --target cpu|cuda [--repeats N] [--limit-s S] [--workers N] [--append FILE] [...]
    python -m bench.null_effect --summary FILE

The submission computes what the baseline does, by torch.compile too: neither is faster (`same`). In `gain` each call
of the baseline is drawn out by 8 % of its own time, in `loss` each call of the submission by 5 %. Every judgement is a
final verdict in fresh processes. Its line of JSON is appended to FILE, so that several runs add up, also such that run
at the same time on a GPU each (CUDA_VISIBLE_DEVICES): what has the fewest lines comes first. FOLDER holds operators as
NAME.py in place of the ten of bench/null_operators.py. With --workers so many are under way at once, each of another
operator: one compiles while another is timed, and the judge's own locks keep what is timed apart. Where `python` has no
torch, CUDA_AGENT_PYTHON names the sandbox's.
"""

import argparse
import math
import random
import statistics
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.judgements import KINDS, STATUSES, Judged, Line, keep, prepared, read
from bench.null_operators import operators
from bench.revision import commit

TARGETS = {
    "same": "no win in at least 100 over at least 10 operators",
    "gain": "a win in at least 57 of 60",
    "loss": "no win in 40",
}


def main() -> int:
    """Judge until all repeats are done or time is up, or print the tables of what was judged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, append=Path("null_effect.jsonl"), repeats=1)
    parser.add_argument("--workers", type=int, default=1, help="judgements under way at once")
    parser.add_argument("--kinds", nargs="*", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    if options.summary:
        print(summary([line for path in options.summary for line in read(path)]))
        return 0
    end = time.monotonic() + options.limit_s
    work = Work(options.append, options.target, chosen(options), options.kinds, options.repeats, end)
    with tempfile.TemporaryDirectory(prefix="null-effect-") as folder:
        Path(folder).chmod(0o755)
        with ThreadPoolExecutor(options.workers) as pool:
            for ended in [pool.submit(judge_on, work, Path(folder)) for _ in range(options.workers)]:
                ended.result()
    return 0


class Work:
    """What is left to judge. Several may take from it at once, each another operator, whose folder it has alone."""

    def __init__(
        self,
        file: Path,
        target: str,
        sources: Mapping[str, str],
        kinds: Sequence[str],
        repeats: int,
        end: float = math.inf,
    ) -> None:
        """Lines are appended to `file`; nothing is begun after `end` (time.monotonic)."""
        self.target = target
        self.sources = sources
        self._file = file
        self._kinds = kinds
        self._repeats = repeats
        self._end = end
        self._busy: set[str] = set()
        self._changed = threading.Condition()

    def take(self) -> tuple[str, str] | None:
        """The next operator and kind, None where nothing more is to be begun; waits where all that is left is busy."""
        with self._changed:
            while time.monotonic() < self._end:
                done = [line for line in read(self._file) if line["target"] == self.target]
                if found := fewest(done, self.sources, self._kinds, self._repeats, self._busy):
                    self._busy.add(found[0])
                    return found
                if not fewest(done, self.sources, self._kinds, self._repeats):
                    return None
                self._changed.wait()
        return None

    def give(self, name: str, line: Line | None) -> None:
        """Keep what came of an operator; without a line nothing more is begun."""
        with self._changed:
            kept = False
            try:
                if line is not None:
                    keep(self._file, line)
                    kept = True
            finally:
                if not kept:
                    self._end = -math.inf
                self._busy.discard(name)
                self._changed.notify_all()


def judge_on(work: Work, folder: Path) -> None:
    """Judge, one after the other, until nothing is left."""
    with Judged() as judged:
        while (found := work.take()) is not None:
            (name, kind), line = found, None
            try:
                place = prepared(folder / name, work.sources[name], work.target)
                about = {"operator": name, "kind": kind, "target": work.target, "commit": commit()}
                line = judged.line(place, kind, about)
            finally:
                work.give(name, line)


def add_options(parser: argparse.ArgumentParser, *, append: Path, repeats: int) -> None:
    """What is judged, how often and for how long, and where its lines are."""
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument(
        "--repeats", type=int, default=repeats, help="judgements of each operator and kind, earlier ones counted"
    )
    parser.add_argument("--limit-s", type=float, default=math.inf, help="no judgement is begun after so many seconds")
    parser.add_argument("--append", type=Path, default=append)
    parser.add_argument("--operators", type=Path, help="a folder of NAME.py")
    parser.add_argument("--only", nargs="*", default=[], metavar="NAME", help="operators to take, instead of all")
    parser.add_argument("--summary", type=Path, nargs="+", metavar="FILE", help="print tables, judge nothing")


def chosen(options: argparse.Namespace) -> dict[str, str]:
    """Sources of the operators by name."""
    if options.operators:
        found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(options.operators.glob("*.py"))}
    else:
        found = operators(options.target)
    return {name: source for name, source in found.items() if not options.only or name in options.only}


def fewest(
    done: Sequence[Line], names: Iterable[str], kinds: Sequence[str], repeats: int, busy: Container[str] = ()
) -> tuple[str, str] | None:
    """What was judged the least of what is not busy, None where all of that was judged often enough."""
    counts = Counter((line["operator"], line["kind"]) for line in done)
    pairs = [(name, kind) for name in names if name not in busy for kind in kinds if counts[name, kind] < repeats]
    random.shuffle(pairs)  # who runs at the same time takes another one
    return min(pairs, key=lambda pair: counts[pair], default=None)


def summary(lines: Sequence[Line]) -> str:
    """Tables by target: each operator, then each kind in all."""
    made = []
    for target in sorted({line["target"] for line in lines}):
        mine = [line for line in lines if line["target"] == target]
        commits = ", ".join(sorted({line["commit"] for line in mine if line.get("commit")}))
        load = spread([line["load"] for line in mine])
        made += [f"Target `{target}`, load average {load}{commits and f', commits {commits}'}:", ""]
        made += ["| kind | operator | n | " + " | ".join(STATUSES) + " | other | ms | ratio | width | furthest |"]
        made += ["|---|---|---|" + "---|" * (len(STATUSES) + 5)]
        for kind in KINDS:
            of_kind = [line for line in mine if line["kind"] == kind]
            for name in sorted({line["operator"] for line in of_kind}):
                made.append(row(kind, name, [line for line in of_kind if line["operator"] == name]))
            if of_kind:
                made.append(row(f"**{kind}**", f"all; to be: {TARGETS[kind]}", of_kind))
        made.append("")
    return "\n".join(made).rstrip()


def row(kind: str, name: str, lines: Sequence[Line]) -> str:
    """Counts by status, medians of time, ratio and width of the interval, and the ratio furthest from the true one."""
    counts = Counter(line["status"] for line in lines)
    cells = [kind, name, str(len(lines)), *(str(counts[status]) for status in STATUSES)]
    cells.append(str(len(lines) - sum(counts[status] for status in STATUSES)))
    ratios = [line["ratio"] for line in lines if line["ratio"]]
    if not ratios:
        return "| " + " | ".join([*cells, "", "", "", ""]) + " |"
    expected = {"same": 1.0, "gain": 1 / 1.08, "loss": 1.05}[kind.strip("*")]
    times = [line["ms"]["compile"] for line in lines if "compile" in line["ms"]]
    widths = [100 * (high - low) / middle for low, middle, high in ratios]
    furthest = max((middle for _, middle, _ in ratios), key=lambda ratio: abs(math.log(ratio / expected)))
    cells += [f"{statistics.median(times):.3g}", f"{statistics.median(middle for _, middle, _ in ratios):.4f}"]
    cells += [f"{statistics.median(widths):.1f} %", f"{furthest:.4f}"]
    return "| " + " | ".join(cells) + " |"


def spread(values: Sequence[float]) -> str:
    """From the least to the most."""
    return f"{min(values):.1f} to {max(values):.1f}"


if __name__ == "__main__":
    raise SystemExit(main())
