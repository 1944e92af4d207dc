"""What Docker says, and the one sentence a person gets."""

import os
import socket
from pathlib import Path

import pytest

from cuda_agent.sandbox.docker.engine import connect
from cuda_agent.sandbox.docker.failures import FAILURES, explained, recognise
from cuda_agent_tools.sandbox import SandboxError

OCI = "failed to create task for container: failed to create shim task: OCI runtime create failed: runc create failed: "
SAID = [
    ("no permission", "('Connection aborted.', PermissionError(13, 'Permission denied'))"),
    ("no permission", "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/d"),
    ("bad address", "Invalid bind address protocol: docker.sock"),
    ("bad address", "HTTPConnectionPool(host='nohost', port=2375): [Errno -2] Name or service not known"),
    ("bad address", "Install paramiko package to enable ssh:// support"),
    ("no daemon", "('Connection aborted.', FileNotFoundError(2, 'No such file or directory'))"),
    ("no daemon", "('Connection aborted.', ConnectionRefusedError(111, 'Connection refused'))"),
    ("no daemon", "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?"),
    ("no answer", "UnixHTTPConnectionPool(host='localhost', port=None): Read timed out. (read timeout=60)"),
    ("no answer", "('Connection aborted.', RemoteDisconnected('Remote end closed connection without response'))"),
    ("no answer", "HTTPConnectionPool(host='10.0.0.1', port=2375): No route to host"),
    ("certificates", "TLS configuration is invalid. certificates must be specified"),
    ("old client library", "client version 1.41 is too old. Minimum supported API version is 1.44"),
    ("old client library", "client is newer than server (client API version: 1.50, server API version: 1.24)"),
    ("no NVIDIA toolkit", 'could not select device driver "" with capabilities: [[gpu]]'),
    ("no NVIDIA toolkit", 'could not select device driver "nvidia" with capabilities: [[gpu compute utility]]'),
    ("rootless cgroups", OCI + "bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted"),
    (
        "rootless cgroups",
        OCI
        + "nvidia-container-cli: mount error: failed to add device rules: unable to find any existing device filters"
        " attached to the cgroup: bpf_prog_query(BPF_CGROUP_DEVICE) failed: operation not permitted: unknown",
    ),
    ("CDI", "could not apply CDI devices: unresolvable CDI devices nvidia.com/gpu=all"),
    ("unknown GPU", OCI + "nvidia-container-cli: device error: GPU-1234: unknown device: unknown"),
    ("no driver", OCI + "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown"),
    ("no driver", OCI + "load library failed: libnvidia-ml.so.1: cannot open shared object file"),
    ("disk full", "mkdir /var/lib/docker/overlay2/0b1: no space left on device"),
    ("image missing", "No such image: cuda-agent-sandbox:latest"),
    ("image missing", "pull access denied for nothing, repository does not exist or may require 'docker login'"),
    ("no init", 'exec: "docker-init": executable file not found in $PATH'),
    ("cgroups", "cgroups: cgroup mountpoint does not exist: unknown"),
    ("runtime", "unknown or invalid runtime name: nvidia"),
    ("runtime", OCI + "unable to start container process"),
]


@pytest.mark.parametrize(("kind", "text"), SAID)
def test_what_docker_says_is_recognised(kind: str, text: str) -> None:
    failure = recognise(text)
    assert failure is not None
    assert failure.name == kind


def test_every_kind_has_a_text_here() -> None:
    assert {failure.name for failure in FAILURES} == {kind for kind, _ in SAID}


@pytest.mark.parametrize(("kind", "text"), SAID)
def test_what_a_person_reads_is_one_sentence_with_a_remedy(kind: str, text: str) -> None:
    message = str(explained(RuntimeError(text), "unix:///var/run/docker.sock", find=lambda name: f"/usr/bin/{name}"))
    assert "\n" not in message
    assert message.endswith("or run with --sandbox local.")
    assert next(failure.remedy for failure in FAILURES if failure.name == kind) in message


def test_the_telling_text_may_be_in_a_cause() -> None:
    error = RuntimeError("Error while fetching server API version")
    error.__cause__ = PermissionError(13, "Permission denied: docker.sock")
    assert "usermod -aG docker" in str(explained(error, "unix:///x", find=lambda name: None))


def test_an_unknown_text_is_shown_cut_to_a_line() -> None:
    message = str(explained(RuntimeError("first\nsecond " + "x" * 500), "tcp://h:1", find=lambda name: None))
    assert "Docker at tcp://h:1 failed: first second xxx" in message
    assert "\n" not in message
    assert len(message) < 400


def test_three_reasons_for_no_connection_have_three_messages(tmp_path: Path) -> None:
    """No socket and no program, no socket, a socket that nobody listens on or that is not ours."""
    nobody = FileNotFoundError(2, "No such file or directory")
    host = f"unix://{tmp_path}/docker.sock"
    texts = [
        str(explained(nobody, host, find=lambda name: None)),
        str(explained(nobody, host, find=lambda name: "/usr/bin/docker")),
        str(explained(PermissionError(13, "Permission denied"), host, find=lambda name: None)),
    ]
    assert ["not installed" in texts[0], "systemctl start docker" in texts[1], "usermod" in texts[2]] == [True] * 3


def test_a_missing_socket_is_a_short_message(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match=r"Docker is not installed|No Docker daemon answers") as caught:
        connect({"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"})
    assert "Traceback" not in str(caught.value)


def test_a_socket_that_nobody_listens_on_is_a_short_message(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(tmp_path / "docker.sock"))
    with pytest.raises(SandboxError, match=r"Docker is not installed|No Docker daemon answers"):
        connect({"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"})


def test_a_socket_of_somebody_else_is_a_short_message(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        error: BaseException = PermissionError(13, "Permission denied")  # root is refused nothing
        assert "usermod" in str(explained(error, "unix:///x"))
        return
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "docker.sock"))
        (tmp_path / "docker.sock").chmod(0)
        with pytest.raises(SandboxError, match="usermod -aG docker"):
            connect({"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"})


@pytest.mark.parametrize(
    "environ",
    [{"DOCKER_HOST": "nonsense://x"}, {"DOCKER_HOST": "tcp://no-such-host.invalid:2375"}, {"DOCKER_HOST": "unix:"}],
)
def test_an_address_that_cannot_be_used_is_named(environ: dict[str, str]) -> None:
    with pytest.raises(SandboxError, match="DOCKER_HOST") as caught:
        connect(environ, timeout_s=5)
    assert "\n" not in str(caught.value)


def test_a_context_that_is_not_there_is_named() -> None:
    with pytest.raises(SandboxError, match="no Docker context 'no-such-context'"):
        connect({"DOCKER_CONTEXT": "no-such-context"})
