import pytest
from tests.unit.agent.openhands.asking import Waits


@pytest.fixture
def waits() -> Waits:
    return Waits()
