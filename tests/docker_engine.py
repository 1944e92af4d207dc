"""The Docker engine and the image that tests use, where they are there."""

import os
from collections.abc import Iterator
from contextlib import contextmanager

from cuda_agent.sandbox.docker.container import Container, Spec
from cuda_agent.sandbox.docker.engine import Engine, connect
from cuda_agent.sandbox.docker.image import find
from cuda_agent.sandbox.docker.layout import GIB, Limits
from cuda_agent_tools.sandbox import SandboxError

IMAGE = os.environ.get("CUDA_AGENT_TEST_IMAGE", "cuda-agent-sandbox:test")
BASE = "cuda-agent-test-base:bookworm"
"""What scripts/test_docker.sh builds the image on."""
LIMITS = Limits(memory_bytes=4 * GIB, cpus=2.0)


def is_ready() -> bool:
    """Say whether an engine answers and has the image; where an image was named for the tests, it must be there.

    Raises:
        SandboxError: it is not.
    """
    required = "CUDA_AGENT_TEST_IMAGE" in os.environ
    try:
        engine = connect(os.environ)
        with engine_closed(engine):
            found = find(engine, IMAGE) is not None
    except SandboxError:
        if required:
            raise
        return False
    if required and not found:
        raise SandboxError(f"there is no image {IMAGE}, which $CUDA_AGENT_TEST_IMAGE names: run make test-docker")
    return found


@contextmanager
def engine_closed(engine: Engine) -> Iterator[Engine]:
    """Close the connections at the end."""
    try:
        yield engine
    finally:
        engine.close()


@contextmanager
def running(limits: Limits = LIMITS, run: str = "test") -> Iterator[Container]:
    """A container of the image, removed at the end."""
    with engine_closed(connect(os.environ)) as engine:
        container = Container(engine, Spec(IMAGE, limits, run=run))
        container.start()
        try:
            yield container
        finally:
            container.stop()
