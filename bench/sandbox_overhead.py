"""What the sandboxes cost by themselves: `python -m bench.sandbox_overhead [--sandbox docker] [--repeat 20]`.

From nothing to the first command's end, a command that does nothing, the stop. Medians and worst values, as a table.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from cuda_agent.config import image_tag
from cuda_agent.runs.in_docker import limits
from cuda_agent.sandbox.docker.container import Container, Spec
from cuda_agent.sandbox.docker.engine import connect
from cuda_agent.sandbox.docker.layout import MODEL
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.sandbox import Sandbox

TARGETS = {"start to first command": 1.5, "command": 0.1, "stop": 1.0}
"""Seconds, for a container."""
COMMANDS = 20
"""In each container."""


@contextmanager
def docker() -> Iterator[tuple[Callable[[], Sandbox], Callable[[], None]]]:
    """Give what starts and what stops a container."""
    engine = connect(os.environ)
    started: list[Container] = []

    def start() -> Sandbox:
        container = Container(engine, Spec(image_tag(os.environ), limits(engine.info()), run="bench"))
        started.append(container)
        container.start()
        return DockerSandbox(container, MODEL)

    try:
        yield start, lambda: started.pop().stop()
    finally:
        for container in started:
            container.stop()
        engine.close()


@contextmanager
def local() -> Iterator[tuple[Callable[[], Sandbox], Callable[[], None]]]:
    """Give what starts and what stops a sandbox of processes."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        sandbox = LocalSandbox(workspace=place / "w", state_dir=place / "s", python=Path(sys.executable))

        def start() -> Sandbox:
            sandbox.start()
            return sandbox

        yield start, sandbox.stop


def measure(kind: str, repeat: int) -> dict[str, list[float]]:
    """Return seconds by what was measured."""
    found: dict[str, list[float]] = {name: [] for name in TARGETS}
    with (docker if kind == "docker" else local)() as (start, stop):
        for _ in range(repeat):
            begin = time.perf_counter()
            sandbox = start()
            sandbox.exec(["true"])
            found["start to first command"].append(time.perf_counter() - begin)
            for _ in range(COMMANDS):
                begin = time.perf_counter()
                sandbox.exec(["true"])
                found["command"].append(time.perf_counter() - begin)
            begin = time.perf_counter()
            stop()
            found["stop"].append(time.perf_counter() - begin)
    return found


def table(kind: str, found: dict[str, list[float]]) -> Iterator[str]:
    """Yield the lines of a table in milliseconds."""
    yield f"| {kind} | median ms | worst ms | target ms |"
    yield "|---|---|---|---|"
    for name, seconds in found.items():
        median, worst = 1000 * statistics.median(seconds), 1000 * max(seconds)
        yield f"| {name} | {median:.0f} | {worst:.0f} | {1000 * TARGETS[name]:.0f} |"


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--sandbox", choices=["docker", "local"], default="docker")
    parser.add_argument("--repeat", type=int, default=20)
    options = parser.parse_args()
    print("\n".join(table(options.sandbox, measure(options.sandbox, options.repeat))))


if __name__ == "__main__":
    main()
