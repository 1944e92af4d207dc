"""A sealed copy of a submission, taken once: what is hashed is what is built and run."""

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cuda_agent_judge.sources import MODULE, read_submission, write_if_changed

_FILE_LIMIT = 1 << 20
_BINDING = ("binding.cpp", "binding_registry.h")


class SubmissionMissing(Exception):
    """There is nothing to judge; the message says what to write."""


@dataclass(frozen=True)
class Sealed:
    """The copy: a folder like the workspace, readable by every user."""

    folder: Path
    sha256: str

    @property
    def module(self) -> Path:
        """The submission's Python file."""
        return self.folder / MODULE


def seal(workspace: Path, into: Path, *, needs_module: bool) -> Sealed:
    """Copy model_new.py, kernels/ and the binding files (which are only looked at, never built).

    Raises:
        SubmissionMissing: model_new.py is needed and missing.
        SourceFault: a file cannot be taken.
    """
    found = read_submission(workspace)
    if needs_module and MODULE not in found.files:
        raise SubmissionMissing(f"{MODULE} is missing from the workspace: write it with a class ModelNew")
    found.write(into)
    for name in _BINDING:
        if (content := peek(workspace / name)) is not None:
            write_if_changed(into / name, content)
    for folder, _, names in os.walk(into):
        Path(folder).chmod(0o755)
        for name in names:
            Path(folder, name).chmod(0o644)
    return Sealed(into, found.sha256)


def workspace_notes(workspace: Path, operator_dir: Path, template: Path) -> list[str]:
    """Name files of the workspace that are no longer what was given; the judge reads none of them."""
    notes = []
    if _differs(workspace / "model.py", operator_dir / "model.py"):
        notes.append("model.py in the workspace differs from the operator; the judge uses the operator as it was given")
    changed = [
        f"utils/{path.name}"
        for path in sorted((template / "utils").glob("*"))
        if _differs(workspace / "utils" / path.name, path)
    ]
    if changed:
        notes.append(f"{', '.join(changed)} in the workspace was changed; no verdict comes from there")
    return notes


def _differs(shown: Path, pristine: Path) -> bool:
    mine, its = peek(shown), peek(pristine)
    return mine is not None and its is not None and mine != its


def peek(path: Path) -> bytes | None:
    """The bytes of a small plain file that is no link, None for anything else."""
    with contextlib.suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as stream:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                content = stream.read(_FILE_LIMIT + 1)
                return content if len(content) <= _FILE_LIMIT else None
    return None
