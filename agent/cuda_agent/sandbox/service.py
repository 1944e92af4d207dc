"""The judge that listens in a sandbox as long as it stands: what the host and the model's commands ask is quick.

The host hands it a key over its standard input, which is written down nowhere else. What the host asks bears a token
made with that key, and what comes back a seal: where the model's commands run under the judge's own user, they could
put something else in the judge's place, but nothing whose answer the host takes.
"""

import hashlib
import hmac
import secrets
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from cuda_agent_tools.sandbox import Sandbox, SandboxError

READY_S = 60.0
RESTARTS = 5
"""It is started anew when it ends (a container short of memory may lose it), but not for ever."""
SOCKET_VARIABLE = "CUDA_AGENT_JUDGE_SOCKET"
ENDING_S = 10.0
_FOREVER_S = 14 * 86400.0
"""Longer than any run; poll() takes no more than 24 days."""


@dataclass(frozen=True)
class Served:
    """Where the judge listens, and what the host and it alone know."""

    socket: str
    key: bytes = field(repr=False)

    def token(self, command: str, nonce: str) -> str:
        """What shows that the host asks."""
        return hmac.new(self.key, f"ask {command} {nonce}".encode(), hashlib.sha256).hexdigest()

    def opened(self, answer: bytes) -> bytes | None:
        """Return the report of an answer (a line with its seal, the report), or None where the seal is not its own."""
        seal, _, report = answer.partition(b"\n")
        right = hmac.new(self.key, b"report " + report, hashlib.sha256).hexdigest().encode()
        return report if hmac.compare_digest(seal, right) else None


class JudgeService:
    """Serves a session; it ends with its sandbox."""

    def __init__(self, trusted: Sandbox, argv: Sequence[str], socket: str, *, restarts: int = RESTARTS) -> None:
        """`argv` are the words of `serve` but for the socket and the key.

        There must be no `restarts` where commands of the model may run meanwhile under the judge's own user: they could
        read the key from its standard input.
        """
        self._restarts = restarts
        self._trusted = trusted
        self._argv = [*argv, "--socket", socket, "--keyed"]
        self._served = Served(socket, secrets.token_bytes(32))
        self._ready = threading.Event()
        self._said = b""
        self._thread = threading.Thread(target=self._run, name="judge service", daemon=True)

    def start(self) -> Served:
        """Start it and wait until it listens.

        Raises:
            SandboxError: it does not come up.
        """
        self._thread.start()
        if not self._ready.wait(READY_S) or b"serving" not in self._said:
            said = self._said.decode(errors="replace").strip()[-300:]
            raise SandboxError(f"the judge does not come up in the sandbox: {said or 'it says nothing'}")
        return self._served

    def try_to_start(self) -> Served | None:
        """Start it where it is no more than a help: None when it does not come up."""
        try:
            return self.start()
        except SandboxError:
            return None

    def wait(self) -> None:
        """Wait for the end that the sandbox's own end brings about."""
        if self._thread.is_alive():
            self._thread.join(ENDING_S)

    def _run(self) -> None:
        try:
            self._trusted.exec(["mkdir", "-p", self._served.socket.rpartition("/")[0]])
            key = self._served.key.hex().encode() + b"\n"
            for _ in range(1 + self._restarts):
                self._trusted.exec(self._argv, stdin=key, timeout_s=_FOREVER_S, on_output=self._listen)
                if not self._ready.is_set():
                    break
        except (SandboxError, OSError) as error:
            self._said += str(error).encode()
        finally:
            self._ready.set()

    def _listen(self, data: bytes) -> None:
        self._said = (self._said + data)[-2000:]
        if b"serving" in self._said:
            self._ready.set()
