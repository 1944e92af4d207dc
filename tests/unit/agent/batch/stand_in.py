"""A program that behaves like `cuda-agent optimize` and `resume` towards whoever starts it, in a fraction of a second.

    python stand_in.py optimize OPERATOR.py --run-dir=DIR ... --json
    python stand_in.py resume DIR ... --json

What it does stands in the operator's file, in a line `# does: WORD [NUMBER]`. Every start adds a line to
`<operators>/starts/<operator>`, so that a test can tell how often something ran. Standard library only.
"""

import fcntl
import hashlib
import json
import os
import signal
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

TURNS = 3
told = [0]
ERRORS = {
    "bad": ("It has no `class Model`.", 2, "operator"),
    "config": ("The model cannot be found.", 2, "config"),
    "daemon": ("The container is gone.", 3, "sandbox"),
}
"""Before there is a run."""


def main() -> int:
    if sys.argv[1] == "resume":
        run = Path(sys.argv[2])
        operator = Path(json.loads((run / "run.json").read_text())["operator"]["path"])
    else:
        operator = Path(sys.argv[2])
        run = Path(next(word.partition("=")[2] for word in sys.argv if word.startswith("--run-dir=")))
    starts = operator.parent / "starts" / operator.stem
    starts.parent.mkdir(exist_ok=True)
    with starts.open("a") as file:
        gpu = next((word.partition("=")[2] for word in sys.argv if word.startswith("--gpu=")), "")
        file.write(f"{sys.argv[1]} {gpu}\n")
    text = operator.read_text()
    word, _, number = text.partition("# does: ")[2].strip().partition(" ")
    count = len(starts.read_text().splitlines())
    model = next((word.partition("=")[2] for word in sys.argv if word.startswith("--model=")), "builtin")
    return Run(run, operator, text, model).go(word, float(number or 0), count)


class Run:
    def __init__(self, run: Path, operator: Path, text: str, model: str) -> None:
        self.run, self.operator, self.text, self.model = run, operator, text, model
        self.log: Any = None
        self.seq = self.turn = 0

    def go(self, word: str, number: float, count: int) -> int:
        if word in ERRORS:
            return self.error(*ERRORS[word])
        if word == "spoilt" and self.run.exists():
            return self.error("The trajectory is damaged.", 2, "config")
        self.begin()
        self.end_early(word)
        if word == "disk":
            return self.error("The disk is full: 'x' could not be written; free some space.", 3, "disk")
        if word == "key":
            return self.stopped("failed", "model_error", 3, kind="authentication")
        if count <= (number if word == "flaky" else 1 if word == "spoilt" else 0):
            return self.error("The judge failed.", 3, "judge")
        # Only the first start takes its time.
        return self.turns(word, number if count == 1 and word != "flaky" else 0.0)

    def end_early(self, word: str) -> None:
        while word == "hang" or (word == "stubborn" and told[0] < 2):
            time.sleep(0.05)
        if word == "crash":
            os.abort()
        if word == "memory":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "child":
            leave_behind(self.operator.parent / "starts" / "child")

    def begin(self) -> None:
        self.run.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(self.run / "trajectory.jsonl", os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self.log = os.fdopen(descriptor, "a+b")
        fcntl.flock(self.log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        self.log.seek(0)
        events = [json.loads(line) for line in self.log.read().splitlines()]
        self.seq = len(events)
        self.turn = max((event["turn"] for event in events if event["type"] == "turn_ended"), default=0)
        self.save("running", None, None, None)
        self.add("resumed" if events else "run_started", turn=self.turn, settings={})
        signal.signal(signal.SIGTERM, lambda *_: told.__setitem__(0, 2))
        signal.signal(signal.SIGINT, lambda *_: told.__setitem__(0, max(1, told[0])))

    def turns(self, word: str, number: float) -> int:
        while self.turn < TURNS:
            self.turn += 1
            self.add("stage", turn=self.turn, name="model")
            self.add("message", turn=self.turn, role="assistant", content="x", usage={"cost_usd": 0.25})
            until = time.monotonic() + number
            while time.monotonic() < until and not told[0]:
                time.sleep(0.02)
            if told[0] == 1:
                self.add("verdict", turn=self.turn, report=self.report("win", final=True))
            if told[0]:
                return self.stopped("interrupted", "interrupted", 130)
            self.add("turn_ended", turn=self.turn)
        if word in ("win", "tie", "flaky", "child", "spoilt"):
            status = "tie" if word == "tie" else "win"
            self.add("verdict", turn=self.turn, report=self.report(status, final=True))
            return self.stopped("done", "target_reached", 0, best=status)
        if word == "degenerate":
            self.add("verdict", turn=self.turn, report=self.report("not_counted", final=False))
        if word == "refused":
            return self.stopped("done", "refused", 1)
        return self.stopped("done", "gave_up", 1)

    def report(self, status: str, *, final: bool) -> dict[str, Any]:
        speed = {"win": 2.0, "tie": 1.01}.get(status, 0.0)
        one = {"median": speed, "low": speed * 0.9, "high": speed * 1.1}
        return {
            "status": status, "final": final, "headline": "compile", "speedup": {"compile": one, "eager": one},
            "latency_ms": {"submission": {"median": 1.0}}, "target": "cpu", "rules": {"precision": "ieee"},
            "isolation": "shared-uid", "reason": "", "performance": {"judgement": {"submission": f"{status}: at 98 %"}},
            "held": {"gpu_s": 0.5, "gpu_wait_s": 0.25},
        }  # fmt: skip

    def add(self, kind: str, **fields: Any) -> None:
        head = {"schema": 1, "seq": self.seq, "time": datetime.now(UTC).isoformat(), "type": kind}
        self.log.write(json.dumps(head | fields).encode() + b"\n")
        self.log.flush()
        self.seq += 1

    def save(self, status: str, code: int | None, stop: Any, result: Any) -> dict[str, Any]:
        digest = hashlib.sha256(f"8 {len(self.text.encode())} model.py".encode() + self.text.encode()).hexdigest()
        document = {
            "schema": 1, "operator": {"name": self.operator.stem, "path": str(self.operator), "sha256": digest},
            "status": status, "exit_code": code, "stop": stop, "turns": self.turn, "error": None, "result": result,
            "usage": {"cost_usd": 0.25 * self.turn, "input_tokens": 100, "output_tokens": 10},
            "environment": {"device": "a machine"}, "settings": {"model": self.model},
        }  # fmt: skip
        fresh = self.run / ".run.json"
        fresh.write_text(json.dumps(document))
        fresh.rename(self.run / "run.json")
        return document

    def stopped(self, status: str, reason: str, code: int, *, kind: str = "", best: str = "") -> int:
        self.add("stopped", turn=self.turn, reason=reason)
        stop = {"reason": reason, "detail": "the key is dead" if kind else "", **({"kind": kind} if kind else {})}
        result = self.report(best, final=True) if best else None
        print(json.dumps(self.save(status, code, stop, result)))
        return code

    def error(self, message: str, code: int, kind: str) -> int:
        if self.log:
            self.save("failed", code, None, None)
        print(json.dumps({"error": {"message": message, "exit_code": code, "kind": kind}}))
        print(f"cuda-agent: {message}", file=sys.stderr)
        return code


def leave_behind(note: Path) -> None:
    """Leave a process in the run's own group, and note which."""
    child = os.fork()
    if child == 0:
        os.execvp("sleep", ["sleep", "1000"])
    note.write_text(str(child))


if __name__ == "__main__":
    sys.exit(main())
