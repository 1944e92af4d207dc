"""Namespaces around the commands of the `local` sandbox, made by bubblewrap (`bwrap`) where it is there and works.

Inside, everything is read-only but the workspace and the state directory; the homes, `/run` and the machine's `/tmp`
are out of sight, apart from the folders of the sandbox's Python and of the toolchain; there is no network and no
process but the command's own. It turns the words of one command into those of a confined one.

It does not limit memory, processes or disk, and files outside the hidden folders that this user may read stay readable.
"""

import glob
import json
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.sandbox.environment import TOOLCHAIN

PROBE_TIMEOUT_S = 120.0
"""A first import of torch from a cold disk takes long."""
INSTALL = "install bubblewrap to keep it off your files and network"
_DEVICES = ("/dev/nvidia*", "/dev/nvidia-caps", "/dev/dri")
"""A GPU's, where there is one; of the rest only what every program expects (null, random, tty, ...) is there."""
_KERNEL = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "mtrr")
"""Of /proc, where root could change the machine itself: read-only."""
_TEMPORARY = ("/tmp", "/var/tmp")
"""Inside, the sandbox's own; what else lies there, a home even, is out of sight."""
_RUNNING_SYSTEM = ("/run/opengl-driver", "/run/current-system", "/run/systemd/resolve")
"""What some systems keep in /run and programs need."""
_CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SYS_PTRACE")
"""Of root: to write where it may write, to give a submission a user of its own, to end that user's processes and to
read their memory. None of them reaches out of the namespaces; mounting, devices and opening files by handle would."""

_START = ("-I", "-S", "-c", "print('inside')")
_USE_GPU = ("-I", "-c", "import torch; torch.zeros(1, device='cuda'); print('inside')")
_WHERE = (
    "import json, os, sys; "
    "print(json.dumps([sys.prefix, sys.base_prefix, os.path.realpath(sys.executable), *sys.path]))"
)


@dataclass(frozen=True)
class Confinement:
    """How a command is confined on this machine."""

    bwrap: str
    python: str
    """An interpreter that can be seen inside."""
    hidden: tuple[str, ...]
    """Folders that are empty inside."""
    shown: tuple[str, ...]
    """Folders below hidden ones that can be read inside nevertheless."""
    capabilities: tuple[str, ...] = ()
    """What root keeps of its rights; empty for anybody else, who has none to lose."""

    def wrap(
        self,
        argv: Iterable[str],
        *,
        workspace: str,
        state_dir: str,
        readable: Iterable[str] = (),
        writable: Iterable[str] = (),
        options: Iterable[str] = ("--unshare-pid",),
    ) -> list[str]:
        """Return the words that run `argv` confined.

        `readable` and `writable` name what it needs beside its folders, `options` says which PID namespace it gets (by
        default one of its own, which ends with it). Descriptors are passed on.
        """
        temporary = os.path.join(state_dir, "tmp")
        words = [self.bwrap, *options, "--die-with-parent", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
        words += ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *self._rights()]
        for device in (found for pattern in _DEVICES for found in sorted(glob.glob(pattern))):
            words += ["--dev-bind", device, device]
        for name in (f"/proc/{name}" for name in _KERNEL):
            words += ["--ro-bind-try", name, name]
        hidden = [folder for folder in self.hidden if not any(_lies_in(folder, other) for other in _TEMPORARY)]
        for folder in hidden:
            words += ["--tmpfs", folder]
        for folder in _TEMPORARY:
            words += ["--bind", temporary, folder]
        for path in (*self.shown, *readable):
            words += ["--ro-bind", path, path]
        for path in (*writable, state_dir, workspace):
            words += ["--bind", path, path]
        for folder in hidden:  # what is written there would be gone with the command
            words += ["--remount-ro", folder]
        return [*words, "--chdir", "/", "--", *argv]

    def _rights(self) -> list[str]:
        if not self.capabilities:
            return []
        return ["--cap-drop", "ALL", *(word for name in self.capabilities for word in ("--cap-add", f"CAP_{name}"))]


@dataclass(frozen=True)
class Found:
    """Whether commands can be confined here."""

    confinement: Confinement | None
    why: str
    """In a few words, for the line that names the sandbox."""


def find_confinement(python: Path, env: Mapping[str, str], *, gpu: bool = False) -> Found:
    """See whether bubblewrap is there and works, with the GPU if one is needed; `env` is the sandbox's environment."""
    bwrap = shutil.which("bwrap")
    if bwrap is None:
        return Found(None, f"unconfined: {INSTALL}")
    hidden = _hidden()
    covered = (*hidden, *_TEMPORARY)
    needed = [*_of_python(python), *_of_toolchain(env), *_RUNNING_SYSTEM]
    confinement = Confinement(
        bwrap,
        str(python),
        hidden,
        tuple(_below(needed, covered)),
        _CAPABILITIES if os.geteuid() == 0 else (),
    )
    fault = _fault(confinement, env, _USE_GPU if gpu else _START)
    if fault:
        return Found(None, f"unconfined: bwrap does not work here ({fault})")
    return Found(confinement, "confined by bwrap: no network, homes hidden")


def _fault(confinement: Confinement, env: Mapping[str, str], probe: tuple[str, ...]) -> str:
    """Run the Python inside once; return what went wrong, "" when nothing did."""
    with tempfile.TemporaryDirectory(prefix="cuda-agent-") as folder:
        workspace, state = (Path(os.path.realpath(folder), name) for name in ("workspace", "state"))
        workspace.mkdir()
        (state / "tmp").mkdir(parents=True)
        argv = [confinement.python, *probe]
        try:
            done = subprocess.run(
                confinement.wrap(argv, workspace=str(workspace), state_dir=str(state)),
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=PROBE_TIMEOUT_S,
                env={name: value for name, value in env.items() if name not in ("HOME", "TMPDIR")},
                check=False,
            )
        except subprocess.TimeoutExpired:
            return f"it did not start a process within {PROBE_TIMEOUT_S:.0f} s"
        except OSError as error:
            return str(error.strerror)
    if done.stdout == "inside\n":
        return ""
    return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1].removeprefix("bwrap: ")


def _hidden() -> tuple[str, ...]:
    """Folders with what is a person's and not the machine's, and with the sockets of its services."""
    try:
        own = pwd.getpwuid(os.geteuid()).pw_dir
    except KeyError:
        own = ""
    named = [os.path.realpath(path) for path in ("/home", "/root", own, os.environ.get("HOME", ""), "/run") if path]
    found = [path for path in dict.fromkeys(named) if os.path.isdir(path) and path not in ("/", "/usr", "/var", "/etc")]
    return tuple(path for path in found if not any(_lies_in(path, other) for other in found if other != path))


def _of_python(python: Path) -> list[str]:
    """Where an interpreter and what it imports lie."""
    try:
        told = subprocess.run(
            [python, "-I", "-c", _WHERE],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60.0,
            env={},
            check=True,
        )
        found: list[str] = json.loads(told.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return [str(python.parent)]
    return [str(python.parent), *found]


def _of_toolchain(env: Mapping[str, str]) -> list[str]:
    """The folders of the compilers, and CUDA's; a program that is a link brings the folder that it lies in along."""
    path = env.get("PATH", "")
    tools = [tool for name in TOOLCHAIN if (tool := shutil.which(name, path=path))]
    folders = [os.path.dirname(os.path.realpath(tool)) for tool in tools]
    # A toolkit's program needs what lies beside its folder: ../include, ../lib, ../nvvm.
    around = [os.path.dirname(folder) for folder in folders if os.path.isdir(os.path.join(folder, "..", "nvvm"))]
    libraries = env.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    return [*path.split(os.pathsep), *folders, *around, *libraries, env.get("CUDA_HOME", "")]


def _below(paths: Iterable[str], covered: tuple[str, ...]) -> list[str]:
    """Those of the paths that are there and would be out of sight, never a hidden folder as a whole."""
    both = (form for path in paths if path for form in (os.path.abspath(path), os.path.realpath(path)))
    wanted = {path for path in both if os.path.exists(path) and any(_lies_in(path, folder) for folder in covered)}
    return sorted(path for path in wanted if not any(_lies_in(path, other) for other in wanted if other != path))


def _lies_in(path: str, folder: str) -> bool:
    return path != folder and Path(path).is_relative_to(folder)
