"""A sandbox whose commands end when the run must end, whatever timeout they were given."""

import math
from collections.abc import Callable, Mapping, Sequence

from cuda_agent_tools.sandbox import DEFAULT_MAX_BYTES, ExecResult, Sandbox


class LimitedSandbox:
    """The same sandbox with a cap on every timeout."""

    def __init__(self, sandbox: Sandbox, time_left: Callable[[], float]) -> None:
        self._sandbox = sandbox
        self._time_left = time_left
        self.workspace = sandbox.workspace
        self.state_dir = sandbox.state_dir

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
        """Run a command; see `cuda_agent_tools.sandbox.Sandbox.exec`."""
        left = self._time_left()
        # A tool's own short steps (reading its state) may still end in order.
        capped = timeout_s if math.isinf(left) else min(timeout_s, max(left, 5.0))
        return self._sandbox.exec(
            argv, cwd=cwd, env=env, stdin=stdin, timeout_s=capped, max_bytes=max_bytes, on_output=on_output
        )

    def read(self, path: str, *, max_bytes: int = 50_000_000) -> bytes:
        """Read a file; see `cuda_agent_tools.sandbox.Sandbox.read`."""
        return self._sandbox.read(path, max_bytes=max_bytes)

    def write(self, path: str, data: bytes) -> None:
        """Write a file; see `cuda_agent_tools.sandbox.Sandbox.write`."""
        self._sandbox.write(path, data)
