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
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Container, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from bench.null_operators import operators, submission
from bench.revision import ROOT, commit

sys.path.insert(0, str(ROOT / "sandbox_image"))  # the sandbox's Python alone does not have it

from cuda_agent_judge import environment
from cuda_agent_judge.report import Report

KINDS: dict[str, dict[str, float]] = {"same": {}, "gain": {"compile": 0.08}, "loss": {"submission": 0.05}}
STATUSES = ("win", "tie", "slower", "inconclusive")
TARGETS = {
    "same": "no win in at least 100 over at least 10 operators",
    "gain": "a win in at least 57 of 60",
    "loss": "no win in 40",
}
Line = dict[str, Any]


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
            if line is None:
                self._end = -math.inf
            else:
                keep(self._file, line)
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


def keep(path: Path, line: Line) -> None:
    """Append a line to the earlier ones, and say it."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
    kind = line.get("neighbour", line["kind"])
    print(f"{line['operator']} {kind}: {line['status']} {line['ratio']} in {line['seconds']:.0f} s", flush=True)


def chosen(options: argparse.Namespace) -> dict[str, str]:
    """Sources of the operators by name."""
    if options.operators:
        found = {path.stem: path.read_text(encoding="utf-8") for path in sorted(options.operators.glob("*.py"))}
    else:
        found = operators(options.target)
    return {name: source for name, source in found.items() if not options.only or name in options.only}


def read(path: Path) -> list[Line]:
    """The lines of earlier judgements."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def fewest(
    done: Sequence[Line], names: Iterable[str], kinds: Sequence[str], repeats: int, busy: Container[str] = ()
) -> tuple[str, str] | None:
    """What was judged the least of what is not busy, None where all of that was judged often enough."""
    counts = Counter((line["operator"], line["kind"]) for line in done)
    pairs = [(name, kind) for name in names if name not in busy for kind in kinds if counts[name, kind] < repeats]
    random.shuffle(pairs)  # who runs at the same time takes another one
    return min(pairs, key=lambda pair: counts[pair], default=None)


def prepared(place: Path, source: str, target: str) -> Path:
    """A session and a workspace, made once for each operator, so that its compiled code is kept between judgements."""
    if place.exists():
        return place
    for part in ("session/operator", "workspace/kernels", "compiled"):
        (place / part).mkdir(parents=True)
    (place / "compiled").chmod(0o1777)  # the submission has a uid of its own
    locks = Path(os.environ.get("CUDA_AGENT_LOCKS") or place.parent / "locks")
    locks.mkdir(mode=0o700, parents=True, exist_ok=True)
    settings = {"target": target, "libraries": "any", "call_timeout_s": 300, "locks": str(locks)}
    (place / "session/session.json").write_text(json.dumps(settings), encoding="utf-8")
    (place / "session/operator/model.py").write_text(source, encoding="utf-8")
    model_new = submission(source, str(place / "compiled"))
    (place / "workspace/model_new.py").write_text(model_new, encoding="utf-8")
    return place


class Judged:
    """The process from which judgements are forked (bench/sandboxed/judged.py, or another `program`)."""

    def __init__(self, program: Sequence[str] = (), *, gpu: str = "") -> None:
        """`gpu`, a UUID, is the one to judge on; without it, it is the first that may be used."""
        usual = [sandbox_python(), "-I", "-B", str(ROOT / "bench/sandboxed/judged.py"), str(ROOT / "sandbox_image")]
        self._program = program or usual
        self._shown = {"CUDA_VISIBLE_DEVICES": gpu} if gpu else {}

    def __enter__(self) -> "Judged":
        pipe = subprocess.PIPE
        environ = environment.clean(dict(os.environ) | self._shown)
        self._process = subprocess.Popen(self._program, stdin=pipe, stdout=pipe, text=True, bufsize=1, env=environ)
        return self

    def __exit__(self, *error: object) -> None:
        if error[0] is not None:
            self._process.terminate()  # nobody waits for the judgement in flight
        with suppress(BrokenPipeError):  # it ended before it had read all
            self._pipe(self._process.stdin).close()
        self._process.wait()
        self._pipe(self._process.stdout).close()

    def line(self, place: Path, kind: str, about: Line) -> Line:
        """Have a judgement made.

        Raises:
            SystemExit: there will be no more.
        """
        began = time.monotonic()
        report = place / "report.json"
        report.unlink(missing_ok=True)
        where = {name: str(place / name) for name in ("session", "workspace")}
        request: Line = {"command": "verdict", "final": True, "nonce": "", "report": str(report)}
        request |= where | {"defences": {"slower": KINDS[kind]}}
        answer = ""
        with suppress(BrokenPipeError):
            self._pipe(self._process.stdin).write(json.dumps(request) + "\n")
            answer = self._pipe(self._process.stdout).readline()
        if not answer:
            raise SystemExit(f"the process that judgements are forked from ended at {about}; see above")
        print(end=json.loads(answer)["stderr"], file=sys.stderr, flush=True)
        if not report.exists():
            return (
                about | told(Report("verdict", "inconclusive"), time.monotonic() - began) | {"status": "judge failed"}
            )
        return about | told(Report.from_json(report.read_text(encoding="utf-8")), time.monotonic() - began)

    @staticmethod
    def _pipe(stream: IO[str] | None) -> IO[str]:
        assert stream is not None
        return stream


def sandbox_python() -> str:
    """The interpreter that has torch."""
    return os.environ.get("CUDA_AGENT_PYTHON") or sys.executable


def told(report: Report, seconds: float) -> Line:
    """What a line keeps of a report."""
    speedup, mine = report.speedup.get("compile"), report.latency_ms.get("submission")
    ratio = None if speedup is None else [round(1 / x, 5) for x in (speedup.high, speedup.median, speedup.low)]
    return {
        "status": report.status,
        "reason": report.reason if report.status not in STATUSES else "",
        "ratio": ratio,
        "ms": {side: round(time.median, 5) for side, time in report.latency_ms.items()},
        "calls": mine.calls if mine else 0,
        "gpu": report.environment.get("gpu", ""),
        "notes": report.notes,
        "in_a_row_us": (report.performance or {}).get("in_a_row_us", {}),
        "enqueue_us": (report.performance or {}).get("enqueue_us", {}),
        "load": round(os.getloadavg()[0], 1),
        "seconds": round(seconds, 1),
    }


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
