"""The folder of a batch, written so that kill -9 at any moment loses nothing.

batch.json (replaced whole: settings, jobs, results) · attempts.jsonl (a line for each process that ended; locked by
whoever runs the batch) · runs/NAME (ordinary run folders, which are what counts) · logs/NAME.log (their plain lines) ·
earlier/ (runs that were begun anew) · results.csv, results.md.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from cuda_agent import files
from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile, whole_lines

SCHEMA = 1
RESERVE_BYTES = 256 * 1024


@dataclass(frozen=True)
class AttemptEnded:
    """A line of attempts.jsonl."""

    job: str
    sha256: str
    """Of the operator that was tried."""
    fault: str
    """Whose fault it was that the run did not come to its own end; "" where it did."""
    exit_code: int
    message: str
    wall_s: float
    ended: str
    """UTC."""
    cpu_s: float = 0.0


class BatchDir:
    """One batch's folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.document = path / "batch.json"
        self.attempts = path / "attempts.jsonl"
        self.runs = path / "runs"
        self.earlier = path / "earlier"
        self.csv = path / "results.csv"
        self.markdown = path / "results.md"

    def run(self, job: str) -> Path:
        """Return the folder of a job's run."""
        return self.runs / job

    def log(self, job: str) -> Path:
        """Return the file that the run's plain lines go to."""
        return self.path / "logs" / f"{job}.log"

    def lock(self) -> LineFile:
        """Make the folder where it is missing, and return attempts.jsonl; no other process has it meanwhile.

        Raises:
            ConfigError: another process runs this batch, or the folder is something else.
            DiskError: it cannot be written.
        """
        if self._is_something_else():
            raise ConfigError(f"{str(self.path)!r} is no batch's folder; name another with --batch-dir.")
        with files.writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        try:
            log = LineFile(self.attempts, alone=True)
        except files.FileInUse:
            raise ConfigError(
                f"The batch {str(self.path)!r} is running in another process; wait for its end or stop it."
            ) from None
        with files.writing(self.path):
            self.runs.mkdir(exist_ok=True)
            # Room for the last batch.json: even on a full disk it says how the batch stands.
            (self.path / ".reserve").write_bytes(b"." * RESERVE_BYTES)
        whole = whole_lines(self.attempts.read_bytes())
        log.cut(whole.end)
        return log

    def _is_something_else(self) -> bool:
        if not os.path.lexists(self.path):
            return False
        return not os.path.isdir(self.path) or (not os.path.exists(self.attempts) and os.listdir(self.path) != [])

    def save(self, document: Mapping[str, Any]) -> None:
        """Replace batch.json.

        Raises:
            DiskError: it could not be written; the old one stands.
        """
        files.replace(self.document, _json({"schema": SCHEMA, **document}))

    def free_reserve(self) -> None:
        """Give back the room that was kept for the last writes."""
        (self.path / ".reserve").unlink(missing_ok=True)

    def set_aside(self, job: str) -> None:
        """Keep a run that is begun anew under another name.

        Raises:
            DiskError: it cannot be moved.
        """
        number = 1
        while os.path.lexists(self.earlier / f"{job}-{number}"):
            number += 1
        with files.writing(self.earlier):
            self.earlier.mkdir(exist_ok=True)
            self.run(job).rename(self.earlier / f"{job}-{number}")

    def discard_unborn(self, job: str) -> None:
        """Remove the folder of a run that was killed before there was anything in it worth keeping."""
        shutil.rmtree(self.run(job), ignore_errors=True)


def load(path: Path) -> dict[str, Any] | None:
    """Read a batch.json; None where there is none yet.

    Raises:
        ConfigError: it is damaged or of another schema.
    """
    file = path / "batch.json"
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{str(file)!r} cannot be read ({said}); restore it from a copy.") from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise ConfigError(f"{str(file)!r} is not of schema {SCHEMA}; use the version that wrote it.")
    return document


def _json(document: Mapping[str, Any]) -> bytes:
    """Write it readably; bytes of file names that are no text only come back unchanged from escapes."""
    try:
        return (json.dumps(document, indent=1, ensure_ascii=False, default=str) + "\n").encode()
    except UnicodeEncodeError:
        return (json.dumps(document, indent=1, default=str) + "\n").encode()


def append(log: LineFile, ended: AttemptEnded) -> None:
    """Write down that a process ended.

    Raises:
        DiskError: there was no room.
    """
    log.append(json.dumps({"schema": SCHEMA, **asdict(ended)}, ensure_ascii=False).encode("utf-8", "backslashreplace"))


def attempts(path: Path) -> Iterator[AttemptEnded]:
    """Yield what stands in attempts.jsonl, oldest first.

    Raises:
        ConfigError: it is damaged before its end.
    """
    file = path / "attempts.jsonl"
    try:
        lines = whole_lines(file.read_bytes()).lines
    except FileNotFoundError:
        return
    for number, line in enumerate(lines, start=1):
        try:
            fields = json.loads(line)
            if fields.pop("schema") != SCHEMA:
                raise ValueError("another schema")
            yield AttemptEnded(**fields)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ConfigError(
                f"{str(file)!r} is damaged in line {number} ({error}); restore it from a copy."
            ) from error
