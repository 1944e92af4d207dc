from pathlib import Path

import pytest
from tests.unit.agent.batch.field import Field


@pytest.fixture
def field(tmp_path: Path) -> Field:
    return Field(tmp_path)
