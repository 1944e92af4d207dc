"""Judge every cheat and every honest submission of the suite many times, each time on new seeds.

    SANDBOX_PYTHON -m bench.suite --target cpu --seeds 10 --append FILE [--limit-s 600] [--weakened] [--workers N]
    SANDBOX_PYTHON -m bench.suite --summary FILE

It runs with the sandbox's Python, which has torch, from the root of a checkout. Each judgement appends one line of
JSON to FILE; runs add up, and rows that have the fewest lines are judged first. With --weakened cheats are judged
without the defences that find them as well. With --workers so many judgements are under way at once, and the judge's
own locks keep what runs on the device apart. Exit code 1 when a cheat was accepted, an honest submission refused, or a
judgement came to no report.
"""

import argparse
import importlib.util
import json
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

from bench.revision import ROOT, commit

sys.path[:0] = [str(ROOT / "sandbox_image"), str(ROOT / "tests" / "unit" / "judge")]

from suite.row import ACCEPTED, Row, Target  # noqa: E402  # a checkout's tests are no installed package
from suite.rows import CHEATS, HONEST, of  # noqa: E402
from suite.warm import NoReport, Warm  # noqa: E402

Line = dict[str, Any]
Task = tuple[Row, str]
"""A row, and the defences that are off."""
NO_REPORT = "no report"
HEADER = (
    "| row | target | found by | runs | refused | accepted | wrong | by status |\n|---|---|---|---|---|---|---|---|"
)


def main() -> int:
    """Judge, or sum up what was judged."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", default="cpu", choices=get_args(Target))
    parser.add_argument("--seeds", type=int, default=10, help="judgements of each row, earlier ones counted")
    parser.add_argument("--rows", default="", metavar="TEXT", help="only rows whose name holds this")
    parser.add_argument("--weakened", action="store_true", help="cheats without what finds them, too")
    parser.add_argument("--limit-s", type=float, default=float("inf"), help="begin no judgement after so many seconds")
    parser.add_argument("--workers", type=int, default=1, help="judgements under way at once")
    parser.add_argument("--append", type=Path, metavar="FILE")
    parser.add_argument("--summary", type=Path, metavar="FILE")
    options = parser.parse_args()
    if options.summary is not None:
        return summary(read(options.summary))
    if options.append is None:
        parser.error("give --append FILE, where judgements are kept, or --summary FILE")
    if importlib.util.find_spec("torch") is None:
        parser.error(
            "this Python has no torch: run it with the sandbox's, .venv-sandbox/bin/python or $CUDA_AGENT_PYTHON"
        )
    rows = [row for row in of(options.target, CHEATS + HONEST) if options.rows in row.name]
    if not rows:
        parser.error(f"no row of {options.target} has {options.rows!r} in its name")
    tasks = [(row, "") for row in rows]
    if options.weakened:
        tasks += [(row, off) for row in rows for off in row.off]
    work = Work(options.append, options.target, options.seeds, time.monotonic() + options.limit_s)
    with tempfile.TemporaryDirectory(prefix="cuda-agent-suite-") as folder:
        Path(folder).chmod(0o755)
        work.carry_out([task for task in tasks if not task[0].alone], Path(folder, "together"), options.workers)
        work.carry_out([task for task in tasks if task[0].alone], Path(folder, "alone"), 1)
    if work.is_late:
        print("time is up; the next run goes on with the rows that have the fewest judgements", file=sys.stderr)
    return 1 if work.wrong else 0


class Work:
    """What is judged, by several at once, until all was judged often enough or time is up."""

    def __init__(self, file: Path, target: Target, seeds: int, end: float) -> None:
        """Lines are appended to `file`, earlier ones counted; nothing is begun after `end` (time.monotonic)."""
        self._file = file
        self._target = target
        self._seeds = seeds
        self._end = end
        self._begun = Counter((line["row"], line["off"]) for line in read(file) if line["target"] == target)
        self._lock = threading.Lock()
        self.wrong = 0
        self.is_late = False

    def carry_out(self, tasks: Sequence[Task], folder: Path, workers: int) -> None:
        """Judge in new folders below this one, in so many processes."""
        if fewest(tasks, self._begun, self._seeds) is None:
            return
        (folder / "locks").mkdir(parents=True, mode=0o700)  # unless $CUDA_AGENT_LOCKS names those of the machine
        with ThreadPoolExecutor(workers) as pool:
            for ended in [pool.submit(self._judge, tasks, folder, number) for number in range(workers)]:
                ended.result()

    def _judge(self, tasks: Sequence[Task], shared: Path, number: int) -> None:
        (root := shared / f"{number}").mkdir()
        with Warm(root, self._target, shared) as warm:
            for row, off in iter(lambda: self._take(tasks), None):
                line = judged(warm, row, off) | {"target": self._target}
                with self._lock, self._file.open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(line) + "\n")
                    self.wrong += is_wrong(row, line)
                if is_wrong(row, line):
                    print(f"{called(row.name, off)}: {line['status']} ({line['reason']})", file=sys.stderr)

    def _take(self, tasks: Sequence[Task]) -> Task | None:
        with self._lock:
            task = fewest(tasks, self._begun, self._seeds)
            self.is_late = self.is_late or (task is not None and time.monotonic() > self._end)
            if task is None or self.is_late:
                return None
            self._begun[task[0].name, task[1]] += 1
            return task


def fewest(tasks: Sequence[Task], done: Counter[tuple[str, str]], seeds: int) -> Task | None:
    """What was judged the least, None where all was judged often enough."""
    left = [(row, off) for row, off in tasks if done[row.name, off] < seeds]
    return min(left, key=lambda task: done[task[0].name, task[1]], default=None)


def judged(warm: Warm, row: Row, off: str) -> Line:
    """Make one judgement."""
    began = time.monotonic()
    status: str
    try:
        report = warm.judge(row, off).report
        status, reason = report.status, report.reason
    except NoReport as nothing:
        status, reason = NO_REPORT, str(nothing)[-600:]
    seconds = round(time.monotonic() - began, 2)
    found = {"row": row.name, "number": row.number, "off": off, "defences": row.defences, "status": status}
    return found | {"reason": reason, "seconds": seconds, "commit": commit()}


def is_wrong(row: Row, line: Line) -> bool:
    """Whether the judge was mistaken; a defence that is off is not the judge's mistake but the test's."""
    status = line["status"]
    if status == NO_REPORT:
        return True
    if line["off"]:
        return status not in ACCEPTED
    if row in HONEST:
        return status not in row.statuses
    return status in ACCEPTED and status not in row.statuses


def summary(lines: list[Line]) -> int:
    """Print a line for each row of each target, and what belongs to none any more; returns the exit code."""
    left: dict[tuple[str, str, str], list[Line]] = {}
    for line in lines:
        left.setdefault((line["row"], line["off"], line["target"]), []).append(line)
    print(HEADER)
    wrong = 0
    known: list[Line] = []
    for target in get_args(Target):
        for row, off in ((one, off) for one in of(target, CHEATS + HONEST) for off in ("", *one.off)):
            if mine := left.pop((row.name, off, target), []):
                print(table_row(row, off, target, mine))
            wrong += sum(is_wrong(row, line) for line in mine)
            known += mine
    commits = ", ".join(sorted({line["commit"] for line in known}))
    seconds = sum(line["seconds"] for line in known)
    print(f"\n{len(known)} judgements, {wrong} of them wrong; {seconds:.0f} s; commits {commits}")
    if left:
        gone = (f"{called(name, off)} on {target} ({len(mine)})" for (name, off, target), mine in left.items())
        print(f"Not counted, since the suite has no such row any more: {', '.join(sorted(gone))}")
    return 1 if wrong else 0


def called(name: str, off: str) -> str:
    """A row and the defences that are off."""
    return f"{name} without {off}" if off else name


def table_row(row: Row, off: str, target: Target, lines: list[Line]) -> str:
    """Make one line of the table."""
    statuses = Counter(line["status"] for line in lines)
    accepted = sum(statuses[status] for status in (*ACCEPTED, *(["slower"] if row in HONEST else [])))
    wrong = sum(is_wrong(row, line) for line in lines)
    by = f"(without {off})" if off else "" if row in HONEST else " or ".join(row.defences)
    told = ", ".join(f"{status} {count}" for status, count in statuses.most_common())
    cells = [f"{row.number} {row.name}", target, by, len(lines), len(lines) - accepted, accepted, wrong, told]
    return "| " + " | ".join(map(str, cells)) + " |"


def read(file: Path) -> list[Line]:
    """What was judged before."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


if __name__ == "__main__":
    raise SystemExit(main())
