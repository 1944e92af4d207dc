"""Judges rows, and has the plain checker look at them, in processes forked from one that is warm."""

import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judging import HOME, LOCKS, Bench

from cuda_agent_judge import environment
from cuda_agent_judge.report import Report
from suite.row import Row, Target, without

TESTS = Path(__file__).resolve().parents[1]
NONCE = "a nonce of the caller"
LOOK_S = 120
"""The plain checker watches over nothing; a look that takes longer is ended."""
ANSWER_S = 900
"""What the judge is asked for ends by itself, long before; without an answer something is broken."""


class NoReport(Exception):
    """A judgement came to no report."""


@dataclass(frozen=True)
class Judged:
    """What one judgement came to."""

    report: Report
    code: int
    stdout: str
    stderr: str


@dataclass(frozen=True)
class Looked:
    """What the plain checker said; nothing where it came to no end."""

    ok: bool
    speedup: float
    output: str


class Warm:
    """Keeps the warm process and the sessions; a context manager."""

    def __init__(self, root: Path, target: Target, shared: Path | None = None) -> None:
        """Several at work at once have a folder `shared`, for the judge's locks."""
        self._root = root
        self._target = target
        locks = os.environ.get(LOCKS) or (str(shared / "locks") if shared is not None else "")
        self._locks = {"locks": locks} if locks else {}
        self._bench = Bench(root, builds=root / "builds")
        command = [sys.executable, "-I", "-B", str(TESTS / "forking.py"), target, str(HOME), str(TESTS)]
        # Cheats write to where temporary files go: not to the tester's own. Other users' workers have to get there.
        self._temporary = tempfile.TemporaryDirectory(prefix="suite-", ignore_cleanup_errors=True)
        Path(self._temporary.name).chmod(0o1777)
        environ = environment.clean({**os.environ, "TMPDIR": self._temporary.name})
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environ)

    def __enter__(self) -> "Warm":
        return self

    def __exit__(self, *raised: object) -> None:
        with self._temporary, self._process as process:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(60)

    def judge(self, row: Row, off: str = "") -> Judged:
        """Judge a row, without some defences where they are named."""
        report = self._root / "report.json"
        report.unlink(missing_ok=True)
        request = {"plain": False, "defences": without(off), "command": row.command, "final": row.final}
        said = self._ask(row, request | {"nonce": NONCE, "report": str(report)})
        if not report.exists():
            raise NoReport(f"exit code {said['code']}: {said['stderr']}")
        read = Report.from_json(report.read_text())
        assert read.nonce == NONCE
        return Judged(read, said["code"], said["stdout"], said["stderr"])

    def look(self, row: Row, limit_s: int = LOOK_S) -> Looked:
        """Have the plain checker look at a row, as often as it takes, each time for so long at most."""
        library = ""
        if row.kernels:
            self.judge(row)
            built = self._session(row).glob("build/loop/lib/*/cuda_extension.so")
            library = str(max(built, key=lambda path: path.parent.stat().st_mtime_ns))
        self._lay_out(row)
        said: dict[str, Any] = {}
        request = {"plain": True, "target": self._target, "library": library, "limit_s": limit_s}
        for _ in range(row.looks):
            said = self._ask(row, request, again=True)
        output = said["stdout"] + said["stderr"]
        try:
            found = json.loads(said["stdout"].splitlines()[-1])
            return Looked(found["ok"], found["speedup"], output)
        except (IndexError, ValueError):
            return Looked(False, 0.0, output)

    def _session(self, row: Row) -> Path:
        settings = row.settings_for(self._target) | self._locks
        return self._bench.session(row.operator_for(self._target), settings)

    @property
    def _workspace(self) -> Path:
        return self._root / "workspace"

    def _lay_out(self, row: Row) -> None:
        kernels = self._workspace / "kernels"
        if self._workspace.exists():
            shutil.rmtree(self._workspace)  # with whatever the row before left there
        kernels.mkdir(parents=True)
        (self._workspace / "model_new.py").write_text(row.source)
        (self._workspace / "model.py").write_text(row.operator_for(self._target))
        for name, text in row.kernels.get(self._target, {}).items():
            (kernels / name).write_text(text)

    def _ask(self, row: Row, request: dict[str, Any], *, again: bool = False) -> dict[str, Any]:
        if not again:
            self._lay_out(row)
        request |= {"session": str(self._session(row)), "workspace": str(self._workspace)}
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps(request) + "\n")
        stdin.flush()
        if not select.select([stdout], [], [], ANSWER_S)[0]:
            self._process.kill()  # what it forked ends with it
        answer = stdout.readline()
        assert answer, f"the warm process ended with exit code {self._process.wait()}"
        said: dict[str, Any] = json.loads(answer)
        return said
