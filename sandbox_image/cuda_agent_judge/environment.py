"""The judge's own environment: started again with a minimal one, so that nothing the caller exported reaches a worker.

Both workers run under an allocator that keeps freed memory (or page faults would be measured instead of kernels) and
with as many OpenMP threads as there are cores.
"""

import os
import signal
import sys
from pathlib import Path

SESSION = "CUDA_AGENT_JUDGE_SESSION"
_MARK = "CUDA_AGENT_JUDGE_PID"
_KEPT = (
    "PATH",
    "HOME",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_DEVICE_ORDER",
    "CXX",
    "CC",
    "LD_LIBRARY_PATH",
)


def is_clean() -> bool:
    """Whether this process is the one that `restart` made."""
    return os.environ.get(_MARK) == str(os.getpid())


def restart(home: Path, arguments: list[str]) -> None:
    """Replace this process by the judge under a clean environment; does not return."""
    sys.stdout.flush()
    sys.stderr.flush()
    command = [sys.executable, "-I", "-B", str(home), *arguments]
    os.execve(sys.executable, command, clean(dict(os.environ)))


def settle() -> None:
    """Make this process fit to judge."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    # torch starts programs, a Python with `-c` among them: in a workspace these would import what lies there.
    os.chdir("/")
    os.umask(0o022)  # compilers and submissions, which run under another user, read what is sealed for them


def _leave(number: int, frame: object) -> None:
    raise SystemExit(128 + number)


def clean(given: dict[str, str]) -> dict[str, str]:
    """The environment the judge runs under."""
    cores = str(len(os.sched_getaffinity(0)))
    kept = {name: given[name] for name in (*_KEPT, SESSION) if name in given}
    return kept | {
        # One GPU is seen, whatever the caller shows: kernels are timed on that and can use no other.
        "CUDA_VISIBLE_DEVICES": given.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0].strip(),
        _MARK: str(os.getpid()),
        "PATH": given.get("PATH") or os.defpath,
        # For what torch starts: this process itself runs isolated.
        "PYTHONSAFEPATH": "1",
        "PYTHONNOUSERSITE": "1",
        # Freed memory stays with the process: no mmap for large blocks, nothing given back at the top.
        "MALLOC_MMAP_MAX_": "0",
        "MALLOC_TRIM_THRESHOLD_": str(1 << 40),
        "MALLOC_TOP_PAD_": str(64 << 20),
        "OMP_NUM_THREADS": cores,
        # About 1 ms of waiting in a loop, then sleep: by default idle threads of one worker take 8 ms of a core that
        # the other one is being timed on.
        "GOMP_SPINCOUNT": "40000",
        # A pool started while torch is imported would make the warm parent unfit to fork.
        "OPENBLAS_NUM_THREADS": "1",
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        "CUDA_MODULE_LOADING": "LAZY",
        "KINETO_LOG_LEVEL": "99",
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
        # They would lie in a folder of the temporary directory that others may make first.
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",
    }
