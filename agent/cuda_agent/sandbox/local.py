"""The `local` sandbox: commands are processes of this machine, in an environment of their own.

It keeps the host's keys and packages out and leaves no process behind. Where it is given a confinement, commands run in
namespaces of their own. Without one it is no wall against hostile code: commands run as the user who started the
program and may read what that user may read.
"""

import os
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from cuda_agent.sandbox.command import Command
from cuda_agent.sandbox.confinement import Confinement
from cuda_agent.sandbox.environment import prepare_state_dir, sandbox_environment
from cuda_agent.sandbox.files import closed, read_file, write_file
from cuda_agent.sandbox.namespace import PidNamespace
from cuda_agent.sandbox.process import LAUNCHER, SUPERVISOR, Supervised
from cuda_agent_tools.sandbox import DEFAULT_MAX_BYTES, ExecResult, SandboxError, SandboxLost


class LocalSandbox:
    """A workspace and a state directory of this machine, and the commands that run there.

    `exec` may be called from several threads. `stop` ends whatever is running.
    """

    def __init__(
        self,
        *,
        workspace: Path,
        state_dir: Path,
        python: Path,
        extra_env: Mapping[str, str] | None = None,
        confinement: Confinement | None = None,
        shared: Sequence[str] = (),
        shown: Sequence[str] = (),
    ) -> None:
        """Take absolute or relative paths; `python` is the interpreter that `python3` is to be inside.

        `shared` are folders of the machine that can be written to also where commands are confined, `shown` those that
        can be read then.
        """
        self.workspace = os.path.realpath(workspace)  # what commands find as their own directory
        self.state_dir = os.path.realpath(state_dir)
        self.python = os.path.abspath(python)  # not resolved: a virtual environment is found by its own path
        self._extra_env = dict(extra_env or {})
        self._confinement = confinement
        self._shared = tuple(shared)
        self._shown = tuple(shown)
        self._namespace: PidNamespace | None = None
        self._env: dict[str, str] = {}
        self._running: set[Supervised] = set()
        self._lock = threading.Lock()
        self._open = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self.stop()

    @property
    def env(self) -> dict[str, str]:
        """The environment every command gets."""
        return dict(self._env)

    def start(self) -> None:
        """Make the directories.

        Raises:
            SandboxError: they cannot be made, or there is no such Python.
        """
        if not os.access(self.python, os.X_OK):
            raise SandboxError(f"there is no Python at {self.python!r}; name another with --python")
        try:
            Path(self.workspace).mkdir(parents=True, exist_ok=True)
            prepare_state_dir(Path(self.python), Path(self.state_dir))
        except OSError as error:
            raise SandboxError(f"the sandbox's directories cannot be made: {error}") from error
        self._env = sandbox_environment(Path(self.python), Path(self.state_dir), host=os.environ, extra=self._extra_env)
        if self._confinement is not None and self._namespace is None:
            self._namespace = PidNamespace(self._confinement, workspace=self.workspace, state_dir=self.state_dir)
        self._open = True

    def stop(self) -> None:
        """End every running command and empty the temporary directory. May be called twice."""
        with self._lock:
            self._open = False
            running = list(self._running)
        for supervised in running:
            supervised.abandon()
        if self._namespace is not None:
            self._namespace.close()
            self._namespace = None
        shutil.rmtree(os.path.join(self.state_dir, "tmp"), ignore_errors=True)

    def exec(
        self,
        argv: Sequence[str],
        *,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
        timeout_s: float = 120.0,
        max_bytes: int = DEFAULT_MAX_BYTES,
        on_output: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        """Run `argv`; see `cuda_agent_tools.sandbox.Sandbox.exec`."""
        where = os.path.join(self.workspace, cwd or "")
        command = Command(tuple(argv), where, {**self._env, **(env or {})}, stdin, timeout_s, max_bytes)
        space = self._namespace
        supervised = Supervised(command, launcher=self._launcher(space), passed=space.descriptors if space else ())
        with self._lock:
            if not self._open:
                raise SandboxError("the sandbox is not running; start it before running commands in it")
            self._running.add(supervised)
        try:
            self._check_there()
            result = supervised.run(on_output)
        except (OSError, SandboxError) as error:
            self._check_there()  # a directory that is gone looks like a command that cannot start
            if isinstance(error, PermissionError) and str(error.filename).rstrip("/") == self.workspace:
                raise SandboxLost(closed(self.workspace)) from error
            raise
        finally:
            with self._lock:
                self._running.discard(supervised)
        self._check_there()
        if supervised.abandoned:
            raise SandboxLost("the sandbox was stopped while a command ran in it")
        return result

    def read(self, path: str, *, max_bytes: int = 50_000_000) -> bytes:
        """Read a file; see `cuda_agent_tools.sandbox.Sandbox.read`."""
        return read_file(self.exec, self.python, path, max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Write a file; see `cuda_agent_tools.sandbox.Sandbox.write`."""
        write_file(self.exec, self.python, path, data)

    def _launcher(self, space: PidNamespace | None) -> Sequence[str]:
        if self._confinement is None or space is None:
            return LAUNCHER
        return self._confinement.wrap(
            [self._confinement.python, *LAUNCHER[1:]],
            workspace=self.workspace,
            state_dir=self.state_dir,
            readable=[str(SUPERVISOR), *filter(os.path.isdir, self._shown)],
            writable=self._shared,
            options=space.options,
        )

    def _check_there(self) -> None:
        for path, what in ((self.workspace, "workspace"), (self.state_dir, "state directory")):
            if not os.path.isdir(path):
                raise SandboxLost(f"the sandbox's {what} {path!r} is gone; start the run again")
        if self._open and self._namespace is not None and not self._namespace.stands:
            raise SandboxLost("the sandbox's namespaces are gone; start the run again")
        if not os.access(self.python, os.X_OK):
            raise SandboxLost(f"the sandbox's Python {self.python!r} is gone; start the run again")
