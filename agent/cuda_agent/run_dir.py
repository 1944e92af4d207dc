"""The folder of a run: what is where, and how it is written so that a crash leaves nothing half done.

run.json (replaced whole) · trajectory.jsonl (locked by the process that runs it) · operator/ (its files as they were at
the start) · workspace/, state/ (the sandbox's; the host never follows a path in them) · snapshots/ (`snapshots.py`) ·
best/ (the kernel to take away).
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cuda_agent import files
from cuda_agent.errors import ConfigError

SCHEMA = 1
RESERVE_BYTES = 64 * 1024


class RunDir:
    """One run's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.workspace = path / "workspace"
        self.state = path / "state"
        """What the tools keep beside it: the shell's state, long outputs, what background commands print."""
        self.trajectory = path / "trajectory.jsonl"
        self.operator = path / "operator"
        self.snapshots = path / "snapshots"
        self.best = path / "best"
        self.restoring = path / ".restoring"
        """There while the workspace is being put back: it is neither the old one nor the new one."""
        self.reserve = path / ".reserve"

    @classmethod
    def create(cls, path: Path | None, operator: str) -> "RunDir":
        """Make the folder; without a path, runs/<UTC stamp>-<operator> in the current directory.

        Raises:
            ConfigError: it exists already.
            DiskError: it cannot be made.
        """
        chosen = (path or default_path(operator)).absolute()
        refuse_existing(chosen)
        with files.writing(chosen):
            chosen.mkdir(parents=True)
            run = cls(chosen)
            try:
                run.workspace.mkdir()
                # Room for the last run.json: even on a full disk it says how the run ended.
                run.reserve.write_bytes(b"." * RESERVE_BYTES)
            except OSError:
                run.remove()
                raise
            return run

    def reopen(self) -> None:
        """Make room for the last run.json again: the run goes on.

        Raises:
            DiskError: there is no room.
        """
        with files.writing(self.path):
            self.reserve.write_bytes(b"." * RESERVE_BYTES)

    def open_trajectory(self) -> files.LineFile:
        """Return the file that the events go to; no other process has it meanwhile.

        Raises:
            ConfigError: another process works on this run.
        """
        try:
            return files.LineFile(self.trajectory, alone=True)
        except files.FileInUse:
            raise ConfigError(
                f"The run {str(self.path)!r} is running in another process; wait for its end or stop it."
            ) from None

    def keep_operator(self, operator: Mapping[str, bytes]) -> None:
        """Keep the operator's files, so that what becomes of the originals does not matter.

        Raises:
            DiskError: they could not be written.
        """
        for name, data in operator.items():
            files.replace(_inside(self.operator, name), data)

    def load_operator(self) -> dict[str, bytes]:
        """Return the operator's files as they were kept.

        Raises:
            ConfigError: they are not there.
        """
        try:
            found = [path for path in sorted(self.operator.rglob("*")) if path.is_file()]
            return {path.relative_to(self.operator).as_posix(): path.read_bytes() for path in found}
        except OSError as error:
            raise ConfigError(f"{str(self.operator)!r} cannot be read ({error.strerror}).") from error

    def save(self, document: Mapping[str, Any]) -> None:
        """Replace run.json.

        Raises:
            DiskError: it could not be written; the old one stands.
        """
        text = json.dumps({"schema": SCHEMA, **document}, indent=2, ensure_ascii=False, default=str)
        files.replace(self.path / "run.json", (text + "\n").encode("utf-8", "backslashreplace"))

    def save_last(self, document: Mapping[str, Any]) -> None:
        """Replace run.json for the last time, with the room that was kept for it.

        Raises:
            DiskError: it could not be written all the same.
        """
        self.reserve.unlink(missing_ok=True)
        self.save(document)

    def remove(self) -> None:
        """Remove the folder: nothing worth keeping happened."""
        shutil.rmtree(self.path, ignore_errors=True)

    def keep_best(self, submission: Mapping[str, bytes], report_json: str) -> None:
        """Replace best/ by these files and the report on them.

        Raises:
            DiskError: there was no room; the old best stands.
        """
        fresh = self.path / ".best.new"
        old = self.path / ".best.old"
        with files.writing(self.best):
            for leftover in (fresh, old):
                shutil.rmtree(leftover, ignore_errors=True)
            for name, data in submission.items():
                target = _inside(fresh, name)
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
            (fresh / "report.json").write_text(report_json + "\n", encoding="utf-8")
            if self.best.exists():
                self.best.rename(old)
            fresh.rename(self.best)
            shutil.rmtree(old, ignore_errors=True)

    @contextmanager
    def best_kept_aside(self, turn: int) -> Iterator[None]:
        """Keep what is in best/ as best-until-turn-N/ if a `with` block, which leaves turn N, puts anything else there.

        Raises:
            DiskError: there was no room; best/ stands.
        """
        if not self.best.exists():
            yield
            return
        aside, number = self.path / f"best-until-turn-{turn}", 2
        while aside.exists():
            aside, number = self.path / f"best-until-turn-{turn}-{number}", number + 1
        part = aside.with_name(f".{aside.name}.new")
        with files.writing(aside):
            shutil.rmtree(part, ignore_errors=True)
            shutil.copytree(self.best, part)
            part.rename(aside)
        yield
        if _report_in(self.best) == _report_in(aside):
            shutil.rmtree(aside, ignore_errors=True)

    def drop_best(self) -> None:
        """Remove best/: what stood there was refuted."""
        shutil.rmtree(self.best, ignore_errors=True)


def _report_in(best: Path) -> bytes | None:
    try:
        return (best / "report.json").read_bytes()
    except OSError:
        return None


def refuse_existing(path: Path | None) -> None:
    """Say early that a run folder cannot be used.

    Raises:
        ConfigError: it exists already.
    """
    if path is not None and os.path.lexists(path):
        raise ConfigError(f"The run folder {str(path)!r} exists already; name another with --run-dir.")


def default_path(operator: str) -> Path:
    """Return runs/<UTC stamp>-<operator>, with a number behind it where that is taken."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    name = re.sub(r"[^\w.-]+", "_", operator).strip("._")[:80] or "operator"
    base = Path("runs") / f"{stamp}-{name}"
    path, number = base, 2
    while os.path.lexists(path):
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path


def load_document(run: Path) -> dict[str, Any]:
    """Read the run.json of a run.

    Raises:
        ConfigError: `run` is no run folder of this schema.
    """
    file = run / "run.json"
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ConfigError(
            f"{str(run)!r} is not a run's folder: it holds no {file.name}; name one under runs/."
        ) from error
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(
            f"{str(file)!r} cannot be read ({said}): this is not a run's folder, or a damaged one."
        ) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ConfigError(f"{str(file)!r} is not of schema {SCHEMA}; use the version that wrote it.")
    return document


def _inside(root: Path, name: str) -> Path:
    parts = Path(name).parts
    if not parts or Path(name).is_absolute() or ".." in parts:
        raise ConfigError(f"The submission has a file outside its folder: {name!r}; remove it.")
    return root / name
