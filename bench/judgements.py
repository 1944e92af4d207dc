"""Final verdicts on submissions that compute what the baseline does, in fresh processes, and what is kept of them."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

from bench.null_operators import submission
from bench.revision import ROOT

sys.path.insert(0, str(ROOT / "sandbox_image"))  # the sandbox's Python alone does not have it

from cuda_agent_judge import environment
from cuda_agent_judge.report import Report

KINDS: dict[str, dict[str, float]] = {"same": {}, "gain": {"compile": 0.08}, "loss": {"submission": 0.05}}
STATUSES = ("win", "tie", "slower", "inconclusive")
Line = dict[str, Any]


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


def read(path: Path) -> list[Line]:
    """The lines of earlier judgements."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def keep(path: Path, line: Line) -> None:
    """Append a line to the earlier ones, and say it."""
    with path.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps(line) + "\n")
    kind = line.get("neighbour", line["kind"])
    print(f"{line['operator']} {kind}: {line['status']} {line['ratio']} in {line['seconds']:.0f} s", flush=True)
