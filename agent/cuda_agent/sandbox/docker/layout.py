"""What is where in the container and who is who; `sandbox_image/Dockerfile` and `run_command.py` say the same."""

from collections.abc import Mapping
from dataclasses import dataclass

from cuda_agent.sandbox.environment import QUIET

HOME = "/opt/cuda-agent"
"""Root's, read-only: the judge, the interpreter with torch, the program that runs commands."""
JUDGE_HOME = f"{HOME}/judge"
PYTHON = f"{HOME}/venv/bin/python3"
RUN_COMMAND = ("/usr/bin/python3", "-I", "-S", f"{HOME}/run_command.py")
WORKSPACE = "/workspace"
JUDGE_SOCKET = "/run/cuda-agent/judge.sock"
"""In a folder of root's; the socket itself is open to all."""
MODEL_UID = 2000

MIB = 1 << 20
GIB = 1 << 30


@dataclass(frozen=True)
class User:
    """Somebody who enters the container, with the directories that are theirs."""

    uid: int
    name: str
    home: str
    state_dir: str
    tmp: str


MODEL = User(MODEL_UID, "sandbox", "/home/sandbox", "/var/lib/sandbox", "/tmp")
"""For what a model does."""
TRUSTED = User(0, "root", "/var/lib/cuda-agent", "/var/lib/cuda-agent", "/var/lib/cuda-agent-tmp")
"""For what the host does and for the judge. A submission (uid 65534) reads its sealed copy below `tmp`."""
LOCKS = f"{TRUSTED.state_dir}/locks"
"""The machine's locks, in a folder that nobody but root gets into."""
KEPT = f"{TRUSTED.state_dir}/kept"
"""Where the volume of the machine's cache is mounted, in the same folder."""
CACHE = f"{KEPT}/judge"
"""The cache, a folder that the judge makes in it."""


@dataclass(frozen=True)
class Limits:
    """What a container may use at most. Files count as memory: all that is writable is held there."""

    memory_bytes: int
    cpus: float
    """0 for no limit."""
    pids: int = 1024
    workspace_bytes: int = GIB
    shm_bytes: int = GIB


def mounts(limits: Limits) -> dict[str, str]:
    """Return every place that can be written to, with its options."""
    size = limits.memory_bytes

    def tmpfs(size_bytes: int, mode: int, uid: int = 0) -> str:
        inodes = max(10_000, size_bytes // 8192)
        return f"rw,exec,nosuid,nodev,size={size_bytes},nr_inodes={inodes},mode={mode:o},uid={uid},gid={uid}"

    return {
        WORKSPACE: tmpfs(limits.workspace_bytes, 0o755, MODEL_UID),
        MODEL.home: tmpfs(min(size // 4, GIB), 0o700, MODEL_UID),
        MODEL.state_dir: tmpfs(256 * MIB, 0o700, MODEL_UID),
        MODEL.tmp: tmpfs(min(size // 4, 2 * GIB), 0o1777),
        TRUSTED.state_dir: tmpfs(min(size // 4, 2 * GIB), 0o700),
        TRUSTED.tmp: tmpfs(min(size // 2, 4 * GIB), 0o711),
        "/run": tmpfs(16 * MIB, 0o755),
    }


def environment(user: User, *, cuda: bool, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the whole environment of a user's commands; nothing of the host's is in it."""
    path = f"{HOME}/venv/bin:/usr/local/cuda/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        "PATH": path,
        "HOME": user.home,
        "TMPDIR": user.tmp,
        "USER": user.name,
        "LOGNAME": user.name,
        "SHELL": "/bin/bash",
        "LANG": "C.UTF-8",
        "PYTHONNOUSERSITE": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        **QUIET,
        **({"CUDA_HOME": "/usr/local/cuda"} if cuda else {}),
        **(extra or {}),
    }
