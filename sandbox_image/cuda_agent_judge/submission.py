"""A sealed copy of what a submission consists of: model_new.py and kernels/, taken once, so that what is judged cannot change."""

import hashlib
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

MAX_BYTES = 64 << 20


class SubmissionMissing(Exception):
    """There is nothing to judge; the message says what to write."""


@dataclass(frozen=True)
class Submission:
    """The sealed copy."""

    source: Path
    sha256: str


def seal(workspace: Path, into: Path) -> Submission:
    """Copy model_new.py into a folder that every user may read, and hash it with kernels/.

    Raises:
        SubmissionMissing: model_new.py is missing or no plain file.
    """
    source = workspace / "model_new.py"
    if not source.is_file():
        raise SubmissionMissing("model_new.py is missing from the workspace: write a class ModelNew there")
    copy = into / "model_new.py"
    shutil.copyfile(source, copy)
    copy.chmod(0o644)
    return Submission(copy, fingerprint(workspace))


def fingerprint(workspace: Path) -> str:
    """SHA-256 over the names and bytes of model_new.py and kernels/."""
    digest = hashlib.sha256()
    for path in _files(workspace):
        name = os.fsencode(str(path.relative_to(workspace)))
        data = path.read_bytes()
        digest.update(len(name).to_bytes(8, "big") + name + len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()


def _files(workspace: Path) -> list[Path]:
    found = [workspace / "model_new.py"]
    for folder, _, names in os.walk(workspace / "kernels"):
        found += [Path(folder) / name for name in names]
    files = sorted(path for path in found if path.is_file())
    if sum(path.stat().st_size for path in files) > MAX_BYTES:
        raise SubmissionMissing(f"model_new.py and kernels/ take more than {MAX_BYTES >> 20} MiB: remove what is no source")
    return files
