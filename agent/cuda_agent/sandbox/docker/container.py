"""One container: created with nothing it does not need, kept while its host holds a connection to it, removed after.

The container's main process is a `cat` whose stdin the host holds open. When the host ends, in whatever way, the stdin
closes, the container stops, and the daemon removes it. What is left after all (a daemon that was restarted in between,
a container that never started) is found by its labels, see `orphans.py`.
"""

import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from docker.errors import APIError, NotFound
from docker.types import DeviceRequest

from cuda_agent.sandbox.command import Command
from cuda_agent.sandbox.docker.engine import ERRORS, Engine
from cuda_agent.sandbox.docker.execution import Execution, StreamEnded
from cuda_agent.sandbox.docker.layout import KEPT, LOCKS, RUN_COMMAND, WORKSPACE, Limits, mounts
from cuda_agent.sandbox.docker.owner import Owner
from cuda_agent_tools.sandbox import ExecResult, SandboxError, SandboxLost

CAPABILITIES = ("CHOWN", "DAC_OVERRIDE", "KILL", "SETGID", "SETUID")
"""Root's in there: it changes users, hands a submission a folder of its own, ends it and removes what it wrote."""
MAIN = ("cat",)
SWEEP_S = 20.0
REMOVE_S = 20.0


@dataclass(frozen=True)
class Spec:
    """What to create."""

    image: str
    limits: Limits
    run: str = ""
    """A name for people, on a label."""
    gpus: tuple[str, ...] = ()
    """UUIDs (or whatever the NVIDIA toolkit knows a device by); none unless they are asked for."""
    locks: str = ""
    """The directory of the machine's locks, as the daemon finds it; without it nothing of the host is in there."""
    cache: str = ""
    """The volume of the machine's cache; the daemon makes it where it is missing."""


def host_config(api: Any, spec: Spec) -> dict[str, Any]:
    """Return Docker's HostConfig: what the container may and may not."""
    limits = spec.limits
    config: dict[str, Any] = api.create_host_config(
        network_mode="none",
        cap_drop=["ALL"],
        cap_add=list(CAPABILITIES),
        security_opt=["no-new-privileges"],
        read_only=True,
        tmpfs=mounts(limits),
        pids_limit=limits.pids,
        mem_limit=limits.memory_bytes,
        memswap_limit=limits.memory_bytes,
        nano_cpus=int(limits.cpus * 1e9),
        shm_size=min(limits.shm_bytes, limits.memory_bytes // 4),  # counts as memory
        init=True,
        ipc_mode="private",
        auto_remove=True,
        restart_policy={"Name": "no"},
        log_config={"Type": "none", "Config": {}},
        binds=_binds(spec) or None,
        device_requests=[DeviceRequest(device_ids=list(spec.gpus), capabilities=[["gpu", "compute", "utility"]])]
        if spec.gpus
        else None,
    )
    return config


def _binds(spec: Spec) -> list[str]:
    found = [(spec.locks, LOCKS), (spec.cache, KEPT)]
    return [f"{source}:{place}:rw" for source, place in found if source]


class Container:
    """A running container; `execute` may be called from several threads."""

    def __init__(self, engine: Engine, spec: Spec) -> None:
        self._engine = engine
        self._spec = spec
        self.name = f"cuda-agent-{secrets.token_hex(6)}"
        """Chosen here, so that it can be removed even when nobody heard that it was created."""
        self._held: Any = None
        self._running: set[Execution] = set()
        self._lock = threading.Lock()
        self._open = False

    def start(self) -> None:
        """Create and start it.

        Raises:
            SandboxError: that failed; nothing is left.
        """
        api = self._engine.api
        try:
            api.create_container(
                self._spec.image,
                list(MAIN),
                name=self.name,
                user="0:0",
                working_dir=WORKSPACE,
                stdin_open=True,
                hostname="sandbox",
                labels=Owner.me().labels(self._spec.run),
                host_config=host_config(api, self._spec),
                use_config_proxy=False,  # there is no network, and a proxy's address may hold a password
            )
            self._held = api.attach_socket(self.name, {"stdin": 1, "stream": 1})
            api.start(self.name)
            self._open = True
        except ERRORS as error:
            self._remove()
            raise self._engine.explained(error) from error
        except BaseException:
            self._remove()
            raise

    def stop(self) -> None:
        """End every command and remove the container. May be called twice."""
        with self._lock:
            was_open, self._open = self._open, False
            running = list(self._running)
        for execution in running:
            execution.abandoned = True
        if was_open:
            self._remove()

    def execute(
        self,
        command: Command,
        uid: int,
        *,
        on_output: Callable[[bytes], None] | None = None,
        sink: Callable[[bytes], None] | None = None,
    ) -> ExecResult:
        """Run a command as a user.

        Raises:
            OSError: it could not be started.
            SandboxError: the container is not running.
            SandboxLost: the container is gone.
        """
        execution = Execution(command, uid, sink)
        with self._lock:
            if not self._open:
                raise SandboxError("the sandbox is not running; start it before running commands in it")
            self._running.add(execution)
        started = time.monotonic()
        try:
            with _Stream(self._start_exec(RUN_COMMAND)) as stream:
                result = execution.run(stream.socket, on_output)
        except StreamEnded:
            result = self._after_silence(execution, time.monotonic() - started)
        finally:
            with self._lock:
                self._running.discard(execution)
        if execution.abandoned:
            raise SandboxLost("the sandbox was stopped while a command ran in it")
        return result

    def _after_silence(self, execution: Execution, duration_s: float) -> ExecResult:
        """A command's end was not told: the container is gone, or `run_command.py` was killed in it."""
        if execution.abandoned:
            raise SandboxLost("the sandbox was stopped while a command ran in it")
        self._check_there()
        sweep = Execution(Command(("true",), "/", {"PATH": "/usr/bin:/bin"}, b"", SWEEP_S, 1000), 0)
        try:
            with _Stream(self._start_exec((*RUN_COMMAND, "sweep"))) as stream:
                sweep.run(stream.socket, None)
        except StreamEnded as error:
            # It was going down: the daemon says that it runs until it has noticed.
            raise SandboxLost(f"the sandbox's container {self.name} is gone; start the run again") from error
        return execution.lost(duration_s)

    def _check_there(self) -> None:
        try:
            state = self._engine.api.inspect_container(self.name)["State"]
        except ERRORS as error:
            raise self._gone(error) from error
        if not state["Running"] or state.get("Paused"):
            what = "paused" if state.get("Paused") else "stopped"
            killed = ": its memory was used up" if state.get("OOMKilled") else ""
            raise SandboxLost(f"the sandbox's container {self.name} was {what}{killed}; start the run again")

    def _start_exec(self, argv: tuple[str, ...]) -> Any:
        api = self._engine.api
        try:
            with self._lock:  # the library's session is not made for several threads
                made = api.exec_create(self.name, list(argv), stdin=True, user="0:0", workdir="/")
                return api.exec_start(made, socket=True)
        except ERRORS as error:
            raise self._gone(error) from error

    def _gone(self, error: BaseException) -> SandboxError:
        if isinstance(error, NotFound) or self._ended_meanwhile(error):
            return SandboxLost(f"the sandbox's container {self.name} is gone or no longer runs; start the run again")
        if isinstance(error, APIError):
            return SandboxError(f"the sandbox starts no more commands: {self._engine.explained(error)}")
        return SandboxLost(f"the sandbox is lost: {self._engine.explained(error)}")

    def _ended_meanwhile(self, error: BaseException) -> bool:
        """Say whether an error tells of a container that ended between two requests, which some daemons call theirs."""
        status = getattr(getattr(error, "response", None), "status_code", 0)
        if status == 409 or "is not running" in str(error):
            return True
        if not isinstance(error, APIError) or status < 500:
            return False
        try:
            state = self._engine.api.inspect_container(self.name)["State"]
        except ERRORS:
            return True
        return not state["Running"] or bool(state.get("Dead"))

    def _remove(self) -> None:
        """Remove it, running or not, and wait until it is gone; what fails is left to the daemon and the next start."""
        limit = time.monotonic() + REMOVE_S
        while time.monotonic() < limit:
            try:
                self._engine.api.remove_container(self.name, force=True, v=True)
            except NotFound:
                break
            except APIError:  # the daemon is removing it already, by itself
                time.sleep(0.02)
            except ERRORS:
                break
        if self._held is not None:
            _close(self._held)
            self._held = None


class _Stream:
    """The connection of an exec, closed at the end of a `with` block."""

    def __init__(self, held: Any) -> None:
        self._held = held
        self.socket = getattr(held, "_sock", held)

    def __enter__(self) -> "_Stream":
        return self

    def __exit__(self, *about: object) -> None:
        _close(self._held)


def _close(held: Any) -> None:
    """Close a hijacked connection: the response it came with first, which flushes into it."""
    for one in (getattr(held, "_response", None), held, getattr(held, "_sock", None)):
        if one is not None:
            with suppress(*ERRORS, ValueError):
                one.close()
