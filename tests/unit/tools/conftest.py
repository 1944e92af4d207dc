import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.bash import Bash


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(
        workspace=tmp_path / "workspace", state_dir=tmp_path / "state", python=Path(sys.executable)
    ) as made:
        yield made


@pytest.fixture
def workspace(sandbox: LocalSandbox) -> Path:
    return Path(sandbox.workspace)


@pytest.fixture
def bash(sandbox: LocalSandbox) -> Callable[..., str]:
    """Runs a command in one session, and returns what a model is told."""
    tool = Bash(sandbox)

    def run(command: str, **more: object) -> str:
        return tool.run({"command": command, **more}).text

    return run
