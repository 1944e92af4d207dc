"""One PID namespace for all commands of a confined sandbox: they see and may signal each other, and nobody else.

Its first process is a small program that waits for the end of its stdin, which the host holds: when the host ends, in
whatever way, the kernel kills all that is inside. The first process of a namespace takes no signal from within.
"""

import fcntl
import json
import os
import subprocess
from contextlib import suppress

from cuda_agent.sandbox.confinement import Confinement
from cuda_agent.sandbox.spawning import out_of_reach
from cuda_agent_tools.sandbox import SandboxError

HOLD = """
import signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # what is orphaned is reaped by the kernel
print(flush=True)
sys.stdin.read()
"""
END_S = 10.0
_NS_GET_USERNS = 0xB701
"""Of ioctl: the user namespace that a namespace belongs to."""


class PidNamespace:
    """A namespace that stands until `close`."""

    def __init__(self, confinement: Confinement, *, workspace: str, state_dir: str) -> None:
        """Make it.

        Raises:
            SandboxError: that failed.
        """
        told, tell = os.pipe()
        argv = [confinement.python, "-I", "-S", "-c", HOLD]
        places = {"workspace": workspace, "state_dir": state_dir}
        words = confinement.wrap(argv, **places, options=("--unshare-pid", "--as-pid-1", "--info-fd", str(tell)))
        with out_of_reach():
            self._process = subprocess.Popen(
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env={},
                cwd="/",
                pass_fds=[tell],
                start_new_session=True,
            )
        os.close(tell)
        self.descriptors: tuple[int, ...] = ()
        """For whoever starts a command in it."""
        self.options: tuple[str, ...] = ()
        """bwrap's words for that."""
        try:
            with open(told, "rb") as stream:
                first = int(json.loads(stream.read())["child-pid"])
            self._wait_until_it_runs()
            self._enter(first, user=not confinement.capabilities)
        except (OSError, ValueError, KeyError) as error:
            self.close()
            raise SandboxError(f"bwrap makes no namespaces any more ({error}); start the run again") from error

    def _enter(self, first: int, *, user: bool) -> None:
        space = os.open(f"/proc/{first}/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._use("--pidns", space)
        if not user:
            return
        # bwrap sets up as root of one user namespace and runs in another, where the user has its own number again.
        outer = int(fcntl.ioctl(space, _NS_GET_USERNS))
        self._use("--userns", outer)
        inner = os.open(f"/proc/{first}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
        if os.path.sameopenfile(outer, inner):
            os.close(inner)
        else:
            self._use("--userns2", inner)

    def _use(self, option: str, descriptor: int) -> None:
        self.descriptors += (descriptor,)
        self.options += (option, str(descriptor))

    def _wait_until_it_runs(self) -> None:
        assert self._process.stdout is not None
        if not self._process.stdout.readline():
            raise OSError("its first process has ended")

    @property
    def stands(self) -> bool:
        """Whether its first process is still there."""
        return self._process.poll() is None

    def close(self) -> None:
        """End everything inside. May be called twice."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = ()
        for stream in (self._process.stdin, self._process.stdout, self._process.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
