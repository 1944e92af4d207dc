import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_agent.sandbox.local import LocalSandbox


@pytest.fixture
def sandbox(tmp_path: Path) -> Iterator[LocalSandbox]:
    with LocalSandbox(
        workspace=tmp_path / "workspace", state_dir=tmp_path / "state", python=Path(sys.executable)
    ) as made:
        yield made


@pytest.fixture
def workspace(sandbox: LocalSandbox) -> Path:
    return Path(sandbox.workspace)
