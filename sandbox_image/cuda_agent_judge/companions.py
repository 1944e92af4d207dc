"""Processes that came from a submission and have a GPU open: on a machine with several, it may be another one.

What the candidate worker itself may use was settled when it came up on its one GPU, before it loaded a submission. On
`cpu` such processes stand still in turn with it (turns.py).
"""

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from cuda_agent_judge.nvml import Watch, watched
from cuda_agent_judge.process_tree import descendants, is_running
from cuda_agent_judge.workers import Refused

_DEVICES = "/dev/nvidia"
_CAP_SYS_PTRACE = 19
_REASON = (
    "a process that the submission started has a GPU open while calls are timed: compute in the process that is given, "
    "on the one GPU that it sees"
)


@contextlib.contextmanager
def watched_alone(gpu: str, pids: Mapping[str, int], devices: str = _DEVICES) -> Iterator[Watch]:
    """Watch a GPU, by UUID, for the length of a `with` block of the judge, whose parent is the workers' too.

    Raises:
        Refused: at its begin or its end the submission has a process of its own on a GPU; `tampering`.
    """
    if gpu:
        _refuse(pids, devices)
    with watched(gpu, pids.values()) as watch:
        yield watch
    if gpu:
        _refuse(pids, devices)


def _refuse(pids: Mapping[str, int], devices: str) -> None:
    found = descendants(os.getppid(), frozenset({os.getpid(), pids["reference"]}))
    if any(_has_open(pid, devices) for pid in found if pid != pids["candidate"] and is_running(pid)):
        raise Refused("tampering", _REASON)


def _has_open(pid: int, devices: str) -> bool:
    """Whether a thread of it has a device open or mapped: each can have its own descriptors, and outlive the first."""
    try:
        return any(_holds(Path(f"/proc/{pid}/task/{name}"), devices) for name in os.listdir(f"/proc/{pid}/task"))
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError:  # it has closed itself to the judge, or is just ending
        return is_running(pid) and _may_look(pid)


def _holds(thread: Path, devices: str) -> bool:
    try:
        if any(_target(f"{thread}/fd/{name}").startswith(devices) for name in os.listdir(thread / "fd")):
            return True
        return f" {devices}".encode() in (thread / "maps").read_bytes()
    except (FileNotFoundError, ProcessLookupError):  # this thread has ended; the others need not have
        return False


def _may_look(pid: int) -> bool:
    """Whether what is not shown of a process is hidden: of others' root needs a right (and has none in a container)."""
    try:
        of_its = _status(pid)["Uid"].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    mine = _status(os.getpid())
    return of_its == mine["Uid"].split()[0] or bool(int(mine["CapEff"], 16) >> _CAP_SYS_PTRACE & 1)


def _status(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text(errors="replace").split("\n")  # a name can hold any byte
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except (FileNotFoundError, ProcessLookupError):  # closed meanwhile
        return ""
