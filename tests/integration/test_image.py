"""The image: found by its labels, built only when it must be, chosen only when it fits."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import docker_engine

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.runs.in_docker import choose_docker
from cuda_agent.runs.place import choose
from cuda_agent.sandbox.docker.build import build
from cuda_agent.sandbox.docker.engine import Engine, connect
from cuda_agent.sandbox.docker.image import Recipe, find, state
from cuda_agent.sandbox.docker.layout import MODEL
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent_tools.sandbox import SandboxError

pytestmark = pytest.mark.docker
STALE = "cuda-agent-stale:test"


@pytest.fixture
def engine() -> Iterator[Engine]:
    made = connect(os.environ)
    with docker_engine.engine_closed(made):
        yield made


@pytest.fixture
def stale() -> Iterator[str]:
    """An image as another version would have built it."""
    recipe = f"FROM {docker_engine.IMAGE}\nLABEL cuda-agent.image.context=old\n"
    subprocess.run(["docker", "build", "--tag", STALE, "-"], input=recipe.encode(), check=True, capture_output=True,
                   env={**os.environ, "DOCKER_BUILDKIT": "0"})  # fmt: skip
    yield STALE
    subprocess.run(["docker", "image", "rm", STALE], check=True, capture_output=True)


def settings(image: str, **more: object) -> Settings:
    return Settings.model_validate({"operator": "model.py", "image": image, **more})


def test_an_image_that_fits_is_not_built_again(engine: Engine) -> None:
    said: list[str] = []
    recipe = Recipe(base=docker_engine.BASE, python="3.11")
    image, built = build(engine, docker_engine.IMAGE, recipe, say=said.append)
    assert (built, said, state(image)) == (False, [], "ready")


def test_a_base_that_cannot_be_had_is_one_sentence_and_the_old_image_stays(engine: Engine, tmp_path: Path) -> None:
    before = find(engine, docker_engine.IMAGE)
    (tmp_path / "pip-1-py3-none-any.whl").write_bytes(b"")
    recipe = Recipe(base="localhost:1/no-such-base:none", python="3.11")
    with pytest.raises(SandboxError, match="name one that is there with --base") as caught:
        build(engine, docker_engine.IMAGE, recipe, wheels=tmp_path, say=lambda line: None)
    assert "\n" not in str(caught.value)
    assert find(engine, docker_engine.IMAGE) == before


def test_a_folder_without_packages_is_said_before_anything_is_built(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no wheel of pip"):
        build(engine, "cuda-agent-new:none", Recipe(), wheels=tmp_path, say=lambda line: None)


def test_auto_takes_docker_where_the_image_is_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_AGENT_PYTHON", raising=False)
    place = choose(settings(docker_engine.IMAGE))
    assert place.kind == "docker"
    assert place.choices[0].startswith(f"sandbox docker: image {docker_engine.IMAGE}")
    assert not place.model_shares_uid
    assert place.gpu == "" or place.target == "cuda"


def test_auto_does_without_an_image_that_is_missing_or_of_another_version(stale: str) -> None:
    assert choose_docker(settings("cuda-agent-no-such-image:none"), asked=False) == ""
    note = choose_docker(settings(stale), asked=False)
    assert isinstance(note, str)
    assert "`cuda-agent image build`" in note


def test_an_image_of_another_version_is_refused_where_docker_was_asked_for(stale: str) -> None:
    with pytest.raises(ConfigError, match="another version: run `cuda-agent image build`"):
        choose_docker(settings(stale, sandbox="docker"), asked=True)


def test_the_image_brings_the_judge_as_it_is_here(docker_sandbox: DockerSandbox) -> None:
    script = "ls -ld /opt/cuda-agent/judge /opt/cuda-agent/run_command.py; cat /opt/cuda-agent/judge/__main__.py"
    said = docker_sandbox.exec(["bash", "-c", script]).stdout.decode()
    assert said.count(" root root ") == 2
    assert "cuda_agent_judge" in said
    assert docker_sandbox.exec(["sudo", "id", "-un"]).stdout == f"{MODEL.name}\n".encode()
