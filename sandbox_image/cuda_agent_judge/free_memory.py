"""How much memory a process may still take on the host. Standard library only."""

import contextlib
from pathlib import Path


def on_host() -> int:
    """Bytes that are free, by the machine and by this process's cgroup."""
    free = 8 * 2**30
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/meminfo").read_text().splitlines()
        free = int(next(line for line in lines if line.startswith("MemAvailable")).split()[1]) * 1024
    with contextlib.suppress(OSError, ValueError):
        limit = int(Path("/sys/fs/cgroup/memory.max").read_text())
        free = min(free, limit - int(Path("/sys/fs/cgroup/memory.current").read_text()))
    return free
