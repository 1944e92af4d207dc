"""The sandboxes that the contract is checked on: add another by its name here.

`local-confined` is among them where bubblewrap works; `confined` in test_confinement.py says where it does not.
"""

import os
import sys
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests import docker_engine

from cuda_agent.sandbox.confinement import find_confinement
from cuda_agent.sandbox.docker.layout import MODEL
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.sandbox import Sandbox

CONFINEMENT = find_confinement(Path(sys.executable), {"PATH": os.defpath}).confinement
DOCKER = pytest.param("docker", marks=pytest.mark.docker)
"""There where an engine has the image; `make test-docker` asks for it by its marker, and finding none is an error."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "kind" in metafunc.fixturenames:
        confined = ["local-confined"] if CONFINEMENT else []
        metafunc.parametrize("kind", ["local", *confined, *([DOCKER] if docker_engine.is_ready() else [])])


@contextmanager
def started(kind: str, folder: Path) -> Iterator[Sandbox]:
    """A sandbox of this kind; `local` lives in the folder."""
    if kind == "docker":
        with docker_engine.running() as container:
            yield DockerSandbox(container, MODEL)
        return
    with LocalSandbox(
        workspace=folder / "work space ü",
        state_dir=folder / "state",
        python=Path(sys.executable),
        confinement=CONFINEMENT if kind == "local-confined" else None,
    ) as local:
        yield local


@pytest.fixture
def sandbox(kind: str, tmp_path: Path) -> Iterator[Sandbox]:
    with started(kind, tmp_path) as one:
        yield one


@pytest.fixture
def as_root(sandbox: Sandbox) -> bool:
    """Whether commands run as root."""
    return sandbox.exec(["id", "-u"]).stdout == b"0\n"


class Processes:
    """Finds the processes that a test has marked, wherever they have gone."""

    def __init__(self) -> None:
        self.mark = f"test-{uuid.uuid4().hex}"

    @property
    def env(self) -> dict[str, str]:
        return {"TEST_MARK": self.mark}

    def left(self) -> list[str]:
        """Return the command lines of the marked processes that still run, those in containers of this machine too."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                environ = Path(f"/proc/{pid}/environ").read_bytes()
                command = Path(f"/proc/{pid}/cmdline").read_bytes()
            except OSError:
                continue
            if f"TEST_MARK={self.mark}".encode() in environ.split(b"\0"):
                found.append(command.replace(b"\0", b" ").decode())
        return found


@pytest.fixture
def processes() -> Processes:
    return Processes()
