"""Who started a container, written on it as labels, and whether that program still runs."""

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "cuda-agent"
OWNED = f"{PREFIX}.owner.pid"
"""The label by which our containers are found."""


@dataclass(frozen=True)
class Owner:
    """A process, known beyond the reuse of its number."""

    pid: int
    start: str
    """When it started, in the kernel's ticks since boot."""
    host: str
    boot: str
    pid_namespace: str
    """Numbers of processes mean something within one only."""

    @classmethod
    def me(cls) -> "Owner":
        """Return the running program."""
        return cls(os.getpid(), _start(os.getpid()), _host(), _boot(), _namespace())

    def labels(self, run: str) -> dict[str, str]:
        """Return the labels of a container of this owner for a run."""
        return {
            OWNED: str(self.pid),
            f"{PREFIX}.owner.start": self.start,
            f"{PREFIX}.owner.host": self.host,
            f"{PREFIX}.owner.boot": self.boot,
            f"{PREFIX}.owner.namespace": self.pid_namespace,
            f"{PREFIX}.run": run,
        }


def is_orphan(labels: Mapping[str, str]) -> bool:
    """Say whether a container's owner is gone for certain: only of programs of this machine can that be known."""
    me = Owner.me()
    pid = labels.get(OWNED, "")
    if not pid.isdigit() or labels.get(f"{PREFIX}.owner.host") != me.host:
        return False
    if labels.get(f"{PREFIX}.owner.boot") != me.boot:
        return True
    if labels.get(f"{PREFIX}.owner.namespace") != me.pid_namespace:
        return False
    return _start(int(pid)) != labels.get(f"{PREFIX}.owner.start")


def _start(pid: int) -> str:
    """Return when a process started, "" for one that is not there or only waits to be collected."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except OSError:
        return ""
    return "" if fields[0] in "ZX" else fields[19]


def _host() -> str:
    return f"{socket.gethostname()}/{_text('/etc/machine-id')}"


def _boot() -> str:
    return _text("/proc/sys/kernel/random/boot_id")


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return os.readlink("/proc/self/ns/pid")
    except OSError:
        return ""
