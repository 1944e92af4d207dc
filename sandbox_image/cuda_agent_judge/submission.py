"""A sealed copy of a submission, taken once: what is hashed is what is built and run."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cuda_agent_judge.reading import glance, opened
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
    for name, content in _glances(workspace, _BINDING).items():
        write_if_changed(into / name, content)
    for folder, _, names in os.walk(into):
        Path(folder).chmod(0o755)
        for name in names:
            Path(folder, name).chmod(0o644)
    return Sealed(into, found.sha256)


def workspace_notes(workspace: Path, operator_dir: Path, template: Path) -> list[str]:
    """Name files of the workspace that are no longer what was given; the judge reads none of them."""
    utils = {f"utils/{path.name}": path for path in sorted((template / "utils").glob("*"))}
    shown = _glances(workspace, ["model.py", *utils])
    notes = []
    if _differs(shown.get("model.py"), operator_dir / "model.py"):
        notes.append("model.py in the workspace differs from the operator; the judge uses the operator as it was given")
    changed = [name for name, path in utils.items() if _differs(shown.get(name), path)]
    if changed:
        notes.append(f"{', '.join(changed)} in the workspace was changed; no verdict comes from there")
    return notes


def _glances(workspace: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Those of the named files that are small and plain."""
    with opened(workspace) as top:
        found = {name: glance(top, name, _FILE_LIMIT) for name in names}
    return {name: content for name, content in found.items() if content is not None}


def _differs(shown: bytes | None, pristine: Path) -> bool:
    return shown is not None and pristine.is_file() and shown != pristine.read_bytes()
