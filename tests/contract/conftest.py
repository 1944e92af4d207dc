"""The sandboxes that the contract is checked on: add another by its name here.

`local-confined` is among them where bubblewrap works; `confined` in test_confinement.py says where it does not.
"""

import os
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_agent.sandbox.confinement import find_confinement
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.sandbox import Sandbox

CONFINEMENT = find_confinement(Path(sys.executable), {"PATH": os.defpath}).confinement
SANDBOXES = ("local",) if CONFINEMENT is None else ("local", "local-confined")


@pytest.fixture(params=SANDBOXES)
def sandbox(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Sandbox]:
    assert request.param in ("local", "local-confined")
    with LocalSandbox(
        workspace=tmp_path / "work space ü",
        state_dir=tmp_path / "state",
        python=Path(sys.executable),
        confinement=CONFINEMENT if request.param == "local-confined" else None,
    ) as started:
        yield started


class Processes:
    """Finds the processes that a test has marked, wherever they have gone."""

    def __init__(self) -> None:
        self.mark = f"test-{uuid.uuid4().hex}"

    @property
    def env(self) -> dict[str, str]:
        return {"TEST_MARK": self.mark}

    def left(self) -> list[str]:
        """Return the command lines of the marked processes that still run."""
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
