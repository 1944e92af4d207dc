"""Generated kernels against PyTorch: many small operators, every variant, both targets."""

import os
from pathlib import Path

import pytest
from tests.unit.agent.builtin.kernel_builds import outcomes

from cuda_agent.sandbox.python import find_python

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture(scope="module")
def python() -> str:
    return str(find_python(host=os.environ, beside=(ROOT,)).path)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(
    "operators", ["operators", "random_graphs", "reductions", "random_rows", "products", "random_products"]
)
def test_every_kernel_computes_what_the_operator_computes(
    python: str, operators: str, target: str, tmp_path: Path
) -> None:
    said = outcomes(python, operators, tmp_path, target)
    assert {name: wrong for name, wrong in said.items() if wrong} == {}
    assert len(said) >= 20
