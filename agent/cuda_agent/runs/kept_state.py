"""The state of a run's tools, in the run's folder: it outlasts the process that works on the run, however that ends.

The host does not read it, and follows no path in it where it copies it.
"""

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cuda_agent import files
from cuda_agent_tools.sandbox import Sandbox

_OUTPUTS = {"jobs": ".log", "outputs": ".txt"}
"""What the tools save for the model to read, by folder."""


class KeptState:
    """The same sandbox with another directory for the tools' state; where commands are confined, it is shared."""

    def __init__(self, sandbox: Sandbox, state_dir: str) -> None:
        self.workspace = sandbox.workspace
        self.state_dir = state_dir
        self.exec = sandbox.exec
        self.read = sandbox.read
        self.write = sandbox.write


def made(folder: Path) -> str:
    """Make the directory, which nobody else gets into, and return its path as commands find it.

    Raises:
        DiskError: it cannot be made.
    """
    with files.writing(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return os.path.realpath(folder)


def copy_outputs(state: Path, into: Path) -> None:
    """Copy what the tools saved for the model; the shell's state goes with a snapshot.

    Raises:
        OSError: there was no room.
    """
    into.mkdir(mode=0o700, parents=True, exist_ok=True)
    for folder, suffix in _OUTPUTS.items():
        with _listed(state / folder) as (place, names):
            for name in (one for one in names if one.endswith(suffix)):
                (into / folder).mkdir(parents=True, exist_ok=True)
                _copy(name, place, into / folder / name)


@contextmanager
def _listed(folder: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield a descriptor of a folder and the names in it; none where it is none, or a link."""
    try:
        place = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        yield -1, []
        return
    try:
        yield place, sorted(os.listdir(place))
    finally:
        os.close(place)


def _copy(name: str, place: int, target: Path) -> None:
    try:
        source = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=place)
    except OSError:  # a link, or gone
        return
    try:
        if stat.S_ISREG(os.fstat(source).st_mode):
            with open(source, "rb", closefd=False) as file, open(target, "wb") as copy:
                shutil.copyfileobj(file, copy)
    finally:
        os.close(source)
