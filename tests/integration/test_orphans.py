"""Containers of dead programs: found by their labels and removed, those of programs that run are spared."""

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
from tests import docker_engine

from cuda_agent.sandbox.docker import orphans
from cuda_agent.sandbox.docker.engine import Engine, connect
from cuda_agent.sandbox.docker.owner import OWNED, Owner

pytestmark = pytest.mark.docker
LABELS = "from cuda_agent.sandbox.docker.owner import Owner; print(Owner.me().labels('test'))"


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = connect(os.environ)
    with docker_engine.engine_closed(made):
        yield made


def dead_owner() -> dict[str, str]:
    """The labels that a program which has ended would have written."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", LABELS], check=True, capture_output=True, text=True, env=env)
    found: dict[str, str] = eval(done.stdout)
    return found


def create(engine: Engine, labels: dict[str, str]) -> str:
    made = engine.api.create_container(docker_engine.IMAGE, ["cat"], labels=labels)
    return str(made["Id"])


def is_there(engine: Engine, container: str) -> bool:
    return any(one["Id"] == container for one in engine.api.containers(all=True, filters={"label": OWNED}))


@pytest.mark.parametrize(
    ("change", "goes"),
    [
        ({}, True),
        ({"cuda-agent.owner.boot": "an earlier one"}, True),
        ({"cuda-agent.owner.host": "another machine"}, False),
        ({"cuda-agent.owner.namespace": "pid:[1]"}, False),
        ({OWNED: "no number"}, False),
    ],
    ids=["dead", "before the last boot", "another machine", "another container's numbers", "damaged"],
)
def test_only_what_certainly_has_no_owner_is_removed(engine: Engine, change: dict[str, str], goes: bool) -> None:
    container = create(engine, {**dead_owner(), **change})
    try:
        orphans.remove(engine)
        assert is_there(engine, container) != goes
    finally:
        subprocess.run(["docker", "rm", "--force", container], capture_output=True)


def test_a_parallel_run_s_container_is_spared(engine: Engine) -> None:
    container = create(engine, Owner.me().labels("parallel"))
    try:
        assert orphans.remove(engine) == []
        assert is_there(engine, container)
    finally:
        engine.api.remove_container(container, force=True)


def test_a_number_that_another_program_has_now_is_a_dead_owner(engine: Engine) -> None:
    container = create(engine, {**Owner.me().labels("before"), "cuda-agent.owner.start": "1"})
    orphans.remove(engine)
    assert not is_there(engine, container)
