"""The connection to a Docker daemon: the one that $DOCKER_HOST or the chosen context names."""

import socket
from collections.abc import Mapping
from typing import Any

import docker
from docker.context import ContextAPI
from docker.errors import DockerException
from docker.utils import kwargs_from_env
from requests.exceptions import RequestException

from cuda_agent.sandbox.docker.failures import explained
from cuda_agent_tools.sandbox import SandboxError

DEFAULT_HOST = "unix:///var/run/docker.sock"
TIMEOUT_S = 60.0
"""Of one request. Commands have deadlines of their own."""
ERRORS = (DockerException, RequestException, OSError)
"""What the client library raises."""


class Engine:
    """A daemon that answers."""

    def __init__(self, api: Any, host: str) -> None:
        self.api = api
        self.host = host

    def explained(self, error: BaseException) -> SandboxError:
        """Return one sentence for what went wrong."""
        return explained(error, self.host)

    def info(self) -> dict[str, Any]:
        """Return what the daemon says of itself and its machine.

        Raises:
            SandboxError: it does not.
        """
        try:
            found: dict[str, Any] = self.api.info()
        except ERRORS as error:
            raise self.explained(error) from error
        return found

    def close(self) -> None:
        """Let go of the connections."""
        self.api.close()


def connect(environ: Mapping[str, str], *, timeout_s: float = TIMEOUT_S) -> Engine:
    """Connect as the docker program would.

    Raises:
        SandboxError: no daemon can be used; the message says what to do.
    """
    host, arguments = address(environ)
    try:
        _knock(host)
        return Engine(docker.APIClient(version="auto", timeout=timeout_s, **arguments), host)
    except ERRORS as error:
        raise explained(error, host) from error


def _knock(host: str) -> None:
    """Try a socket of this machine first: the client library leaks its own when nobody listens."""
    if host.startswith("unix:///"):
        with socket.socket(socket.AF_UNIX) as ours:
            ours.settimeout(TIMEOUT_S)
            ours.connect(host.removeprefix("unix://"))


def address(environ: Mapping[str, str]) -> tuple[str, dict[str, Any]]:
    """Return the daemon's address and the client's arguments for it.

    Raises:
        SandboxError: the chosen context or the certificates are not there.
    """
    try:
        if environ.get("DOCKER_HOST"):
            arguments = kwargs_from_env(dict(environ))
            return environ["DOCKER_HOST"], arguments
        name = environ.get("DOCKER_CONTEXT") or None
        context = ContextAPI.get_context(name)
    except Exception as error:  # the library raises bare Exception for a damaged context
        raise explained(error, environ.get("DOCKER_HOST") or "of the current context") from error
    if context is None:
        said = f" {name!r}" if name else " of that name"
        raise SandboxError(f"There is no Docker context{said}: see `docker context ls`, or unset $DOCKER_CONTEXT.")
    host = (context.Host or DEFAULT_HOST).replace("http+unix://", "unix://")
    arguments = {"base_url": host}
    if context.TLSConfig is not None:
        arguments["tls"] = context.TLSConfig
    return host, arguments
