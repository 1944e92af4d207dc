"""What one run knows outside the workspace: the settings, the pristine operator, caches and the records."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from cuda_agent_judge.output import write_whole
from cuda_agent_judge.report import Report

Target = Literal["cpu", "cuda"]
Precision = Literal["tf32", "ieee", "half"]
Libraries = Literal["vendor", "own", "any"]
OutputLifetime = Literal["held", "next-call"]


class SessionFault(Exception):
    """The session directory cannot be used; the message says what to change."""


@dataclass(frozen=True)
class Session:
    """A session directory and its settings."""

    path: Path
    target: Target = "cpu"
    precision: Precision = "tf32"
    libraries: Libraries = "vendor"
    output_lifetime: OutputLifetime = "held"
    call_timeout_s: float = 60.0
    """Limit of one call of the submission, its import included."""
    build_timeout_s: float = 600.0
    operator_timeout_s: float = 300.0
    """Limit of one step of the operator: its import, its constructor, a draw of inputs, a call of forward."""
    model_shares_uid: bool = False
    """A model's commands run under the judge's own uid: no uid of a submission keeps it from the judge's files then."""
    locks: Path | None = None
    """The directory of the machine's locks; None where nothing else is judged on it."""
    cache: Path | None = None
    """What this machine's judges keep from run to run; None where nothing is kept."""

    @property
    def operator_dir(self) -> Path:
        """The pristine operator: model.py and what it imports from beside itself."""
        return self.path / "operator"

    @property
    def cache_dir(self) -> Path:
        """Inductor's cache."""
        return self.path / "cache"

    @property
    def build_dir(self) -> Path:
        """Object files of incremental builds."""
        return self.path / "build"

    @property
    def records(self) -> Path:
        """One Report a line for every build, check, profile and verdict that ended."""
        return self.path / "records.jsonl"

    @property
    def effective_precision(self) -> Precision:
        """The policy in force: a CPU has no TF32."""
        return "ieee" if self.target == "cpu" else self.precision

    def record(self, report: Report) -> None:
        """Append a report to the records in one write."""
        line = (report.to_json() + "\n").encode()
        fd = os.open(self.records, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)

    def remember_baselines(self, key: str, value: dict[str, Any]) -> None:
        """Keep the baselines' times under what they depend on, for whoever reads the session."""
        path = self.path / "baselines.json"
        try:
            known = json.loads(path.read_text())
        except (OSError, ValueError):
            known = {}
        known[key] = value
        write_whole(path, json.dumps(known, indent=1, sort_keys=True).encode() + b"\n")


def load(path: Path) -> Session:
    """Read a session directory.

    Raises:
        SessionFault: it is missing, or a setting is not one of those the judge knows.
    """
    file = path / "session.json"
    try:
        raw = json.loads(file.read_text())
    except OSError as error:
        raise SessionFault(
            f"{str(file)!r} cannot be read ({error.strerror}); give --session a session directory"
        ) from error
    except ValueError as error:
        raise SessionFault(f"{str(file)!r} is not JSON: {error}") from error
    if not isinstance(raw, dict):
        raise SessionFault(f"{str(file)!r} must hold one JSON object")
    return Session(
        path=path.resolve(),
        target=_choice(raw, "target", get_args(Target), "cpu"),
        precision=_choice(raw, "precision", get_args(Precision), "tf32"),
        libraries=_choice(raw, "libraries", get_args(Libraries), "vendor"),
        output_lifetime=_choice(raw, "output_lifetime", get_args(OutputLifetime), "held"),
        call_timeout_s=_seconds(raw, "call_timeout_s", 60.0),
        build_timeout_s=_seconds(raw, "build_timeout_s", 600.0),
        operator_timeout_s=_seconds(raw, "operator_timeout_s", 300.0),
        model_shares_uid=_choice(raw, "model_shares_uid", (False, True), False),
        locks=_folder(raw, "locks"),
        cache=_folder(raw, "cache"),
    )


def _choice(raw: dict[str, Any], key: str, known: tuple[Any, ...], default: Any) -> Any:
    value = raw.get(key, default)
    if value not in known:
        raise SessionFault(f"session.json: {key} is {value!r}; it must be one of {', '.join(map(str, known))}")
    return value


def _folder(raw: dict[str, Any], key: str) -> Path | None:
    value = raw.get(key)
    if value is None:
        return None
    if not isinstance(value, str) or not value.startswith("/"):
        raise SessionFault(f"session.json: {key} is {value!r}; it must be an absolute path")
    return Path(value)


def _seconds(raw: dict[str, Any], key: str, default: float) -> float:
    value = raw.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < 86400:
        raise SessionFault(f"session.json: {key} is {value!r}; it must be a number of seconds above 0")
    return float(value)
