"""The judge's service in a container: root listens on a socket, and the model's commands ask there."""

import math
import threading
from typing import Self

from cuda_agent.sandbox.docker.layout import JUDGE_HOME, JUDGE_SOCKET, PYTHON, WORKSPACE
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent_tools.sandbox import SandboxError

READY_S = 60.0
RESTARTS = 5
"""It is started anew when it ends (a container short of memory may lose it), but not for ever."""
SOCKET_VARIABLE = "CUDA_AGENT_JUDGE_SOCKET"


class JudgeService:
    """Serves a session as long as its container runs."""

    def __init__(self, trusted: DockerSandbox, session: str) -> None:
        """Take the container as root enters it, and the session's directory in there."""
        self._trusted = trusted
        self._argv = [PYTHON, "-I", JUDGE_HOME, "serve", "--session", session, "--workspace", WORKSPACE]
        self._ready = threading.Event()
        self._said = b""

    def start(self) -> Self:
        """Start it and wait until it listens; it ends with the container.

        Raises:
            SandboxError: it does not come up.
        """
        threading.Thread(target=self._run, name="judge service", daemon=True).start()
        if not self._ready.wait(READY_S) or b"serving" not in self._said:
            said = self._said.decode(errors="replace").strip()[-300:]
            raise SandboxError(f"the judge does not come up in the container: {said or 'it says nothing'}")
        return self

    def _run(self) -> None:
        try:
            self._trusted.exec(["mkdir", "-p", JUDGE_SOCKET.rpartition("/")[0]])
            for _ in range(1 + RESTARTS):
                self._trusted.exec([*self._argv, "--socket", JUDGE_SOCKET], timeout_s=math.inf, on_output=self._listen)
        except (SandboxError, OSError) as error:
            self._said += str(error).encode()
        finally:
            self._ready.set()

    def _listen(self, data: bytes) -> None:
        self._said = (self._said + data)[-2000:]
        if b"serving" in self._said:
            self._ready.set()
