"""Fixtures on a real Docker engine; `make test-docker` brings one up."""

from collections.abc import Iterator

import pytest
from tests import docker_engine

from cuda_agent.sandbox.docker.container import Container
from cuda_agent.sandbox.docker.layout import MODEL, TRUSTED
from cuda_agent.sandbox.docker.sandbox import DockerSandbox


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = pytest.mark.skip(reason=f"needs a Docker engine with {docker_engine.IMAGE}: make test-docker")
    ready = None
    for item in items:
        if item.get_closest_marker("docker") and "tests/integration" in item.path.as_posix():
            ready = docker_engine.is_ready() if ready is None else ready
            if not ready:
                item.add_marker(missing)


@pytest.fixture
def container() -> Iterator[Container]:
    with docker_engine.running() as started:
        yield started


@pytest.fixture
def docker_sandbox(container: Container) -> DockerSandbox:
    """The container entered as the user that a model's commands run as."""
    return DockerSandbox(container, MODEL)


@pytest.fixture
def trusted_sandbox(container: Container) -> DockerSandbox:
    """The same container entered as root, as the host does for itself and for the judge."""
    return DockerSandbox(container, TRUSTED)
