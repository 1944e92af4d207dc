"""What a submission consists of: model_new.py and kernels/, read once: what is hashed is what is built and run."""

import hashlib
import os
import stat
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from cuda_agent_judge.output import write_whole
from cuda_agent_judge.reading import SourceFault as SourceFault
from cuda_agent_judge.reading import Tree, opened

MODULE = "model_new.py"
KERNELS = "kernels"
MAX_BYTES = 32 * 2**20


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
        SourceFault: a file is a link, no plain file or unreadable, or they are too large or too many together.
    """
    tree = Tree(MAX_BYTES)
    with opened(workspace) as top:
        if _mode(top, MODULE):
            tree.add(top, MODULE, MODULE)
        if mode := _mode(top, KERNELS):
            if not stat.S_ISDIR(mode):
                raise SourceFault(f"{KERNELS} is no folder: make it a folder and put the sources there")
            tree.add_folder(top, KERNELS, KERNELS)
    return Submission(dict(sorted(tree.files.items())))


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
    write_whole(path, content)


def _mode(top: int, name: str) -> int:
    """The kind and rights of an entry, 0 where it is missing."""
    try:
        return os.stat(name, dir_fd=top, follow_symlinks=False).st_mode
    except OSError:
        return 0
