"""The `docker` sandbox as the tools see it: a container entered as one user."""

import posixpath
from collections.abc import Callable, Mapping, Sequence

from cuda_agent.sandbox.command import Command
from cuda_agent.sandbox.docker.container import Container
from cuda_agent.sandbox.docker.layout import PYTHON, WORKSPACE, User, environment
from cuda_agent.sandbox.files import read_file, write_file
from cuda_agent_tools.sandbox import DEFAULT_MAX_BYTES, ExecResult


class DockerSandbox:
    """What one user does in a container."""

    def __init__(
        self, container: Container, user: User, *, cuda: bool = False, extra_env: Mapping[str, str] | None = None
    ) -> None:
        self.workspace = WORKSPACE
        self.state_dir = user.state_dir
        self.container = container
        self._user = user
        self._env = environment(user, cuda=cuda, extra=extra_env)

    def stop(self) -> None:
        """Remove the container, for every user of it."""
        self.container.stop()

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
        where = posixpath.join(self.workspace, cwd or "").rstrip("/") or "/"
        command = Command(tuple(argv), where, {**self._env, **(env or {})}, stdin, timeout_s, max_bytes)
        return self.container.execute(command, self._user.uid, on_output=on_output)

    def stream(self, argv: Sequence[str], sink: Callable[[bytes], None], *, timeout_s: float) -> ExecResult:
        """Run `argv` and hand its stdout, of whatever length, to `sink`."""
        command = Command(tuple(argv), self.workspace, self._env, b"", timeout_s, DEFAULT_MAX_BYTES)
        return self.container.execute(command, self._user.uid, sink=sink)

    def read(self, path: str, *, max_bytes: int = 50_000_000) -> bytes:
        """Read a file; see `cuda_agent_tools.sandbox.Sandbox.read`."""
        return read_file(self.exec, PYTHON, path, max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Write a file; see `cuda_agent_tools.sandbox.Sandbox.write`."""
        write_file(self.exec, PYTHON, path, data)
