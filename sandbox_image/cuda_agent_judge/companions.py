"""Processes that came from a submission and have a GPU open: on a machine with several, it may be another one.

What the candidate worker itself may use was settled when it came up on its one GPU, before it loaded a submission. On
`cpu` such processes stand still in turn with it (turns.py).
"""

import contextlib
import os
from collections.abc import Iterator, Mapping

from cuda_agent_judge.nvml import Watch, watched
from cuda_agent_judge.process_tree import descendants, is_running
from cuda_agent_judge.workers import Refused

_DEVICES = "/dev/nvidia"
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
    folder = f"/proc/{pid}/fd"
    try:
        return any(_target(f"{folder}/{name}").startswith(devices) for name in os.listdir(folder))
    except (FileNotFoundError, ProcessLookupError):
        return False
    except PermissionError:  # it has closed itself to the judge, or is just ending
        return is_running(pid)


def _target(link: str) -> str:
    try:
        return os.readlink(link)
    except (FileNotFoundError, ProcessLookupError):  # closed meanwhile
        return ""
