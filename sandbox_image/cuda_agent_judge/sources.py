"""What a submission consists of: model_new.py and kernels/, read once so that what is hashed is what is built and run.

No symbolic link is followed: a workspace belongs to the model, and the reader may have more rights than it.
"""

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MODULE = "model_new.py"
KERNELS = "kernels"
MAX_BYTES = 32 * 2**20


class SourceFault(Exception):
    """The submission's files cannot be taken; the text is one sentence."""


@dataclass(frozen=True)
class Submission:
    """The bytes of a submission by relative path (`kernels/x.cpp`), sorted."""

    files: dict[str, bytes]

    @cached_property
    def sha256(self) -> str:
        """Over names and bytes; "" without any file."""
        if not self.files:
            return ""
        digest = hashlib.sha256()
        for name, content in self.files.items():
            digest.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
            digest.update(content)
        return digest.hexdigest()

    def write(self, directory: Path) -> None:
        """Write the files under `directory`; a file that already has these bytes is left alone, strays are removed."""
        for stray in sorted((directory / KERNELS).rglob("*"), reverse=True):
            if stray.is_dir() and not stray.is_symlink():
                if not any(stray.iterdir()):
                    stray.rmdir()
            elif stray.relative_to(directory).as_posix() not in self.files:
                stray.unlink()
        for name, content in self.files.items():
            write_if_changed(directory / name, content)


def read_submission(workspace: Path) -> Submission:
    """Read model_new.py and kernels/ of a workspace; either may be missing.

    Raises:
        SourceFault: a file is a link, no plain file or unreadable, or they are too large together.
    """
    files: dict[str, bytes] = {}
    left = MAX_BYTES
    try:
        top = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        raise SourceFault(f"the workspace cannot be read: {error.strerror}") from error
    try:
        for folder, names, shown in _folders(top):
            for name in names:
                content = _read(name, folder, shown + name, left)
                left -= len(content)
                files[shown + name] = content
    finally:
        os.close(top)
    return Submission(dict(sorted(files.items())))


def submission_sha256(workspace: Path) -> str:
    """Hash of a workspace's submission; see `Submission.sha256`.

    Raises:
        SourceFault: as read_submission.
    """
    return read_submission(workspace).sha256


def write_if_changed(path: Path, content: bytes) -> None:
    """Write a file unless it already has this content."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_bytes(content)
    temporary.replace(path)


def _folders(top: int) -> Iterator[tuple[int, list[str], str]]:
    """Descriptor, file names and shown prefix of the top and of every folder in kernels/."""
    entries = os.listdir(top)
    yield top, [name for name in (MODULE,) if name in entries], ""
    if KERNELS not in entries:
        return
    if not stat.S_ISDIR(os.stat(KERNELS, dir_fd=top, follow_symlinks=False).st_mode):
        raise SourceFault(f"{KERNELS} is no folder: make it a folder and put the sources there")
    for folder, subfolders, names, descriptor in os.fwalk(
        KERNELS, dir_fd=top, follow_symlinks=False, onerror=_unreadable
    ):
        subfolders[:] = sorted(name for name in subfolders if name != "__pycache__" and not name.startswith("."))
        for name in subfolders:
            if stat.S_ISLNK(os.stat(name, dir_fd=descriptor, follow_symlinks=False).st_mode):
                raise SourceFault(f"{folder}/{name} is a symbolic link: put the files themselves there")
        yield descriptor, sorted(name for name in names if not name.startswith(".")), folder + "/"


def _unreadable(error: OSError) -> None:
    raise SourceFault(f"{error.filename} cannot be read: {error.strerror}") from error


def _read(name: str, folder: int, shown: str, left: int) -> bytes:
    try:
        # O_NONBLOCK: a fifo without a writer would hold the open for ever.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except OSError as error:
        if os.path.islink(f"/proc/self/fd/{folder}/{name}"):
            raise SourceFault(f"{shown} is a symbolic link: put the file itself there") from error
        raise SourceFault(f"{shown} cannot be read: {error.strerror}") from error
    with os.fdopen(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SourceFault(f"{shown} is no plain file: remove it")
        content = stream.read(left + 1)
    if len(content) > left:
        raise SourceFault(
            f"{MODULE} and {KERNELS}/ hold more than {MAX_BYTES >> 20} MiB: keep sources only, no data or objects"
        )
    return content
