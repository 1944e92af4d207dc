import os
from pathlib import Path

import pytest

from cuda_agent.sandbox.python import find_python


@pytest.fixture(scope="session")
def sandbox_python() -> str:
    """A Python with torch, found as the program finds it."""
    return str(find_python(host=os.environ, beside=(Path(__file__).resolve().parents[2],)).path)
