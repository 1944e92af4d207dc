"""The built-in model on real operators: the real program, sandbox, compiler and judge."""

import json
from pathlib import Path

from tests.e2e.program import cuda_agent

RUNNING_SUM = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.cumsum(x, 1)
def get_inputs():
    return [torch.randn(16, 100)]
"""


def _run(tmp_path: Path, source: str) -> tuple[int, dict[str, object]]:
    operator = tmp_path / "model.py"
    operator.write_text(source)
    done = cuda_agent("optimize", operator, "--run-dir", tmp_path / "run", "--target", "cpu", cwd=tmp_path)
    document: dict[str, object] = json.loads((tmp_path / "run" / "run.json").read_text())
    return done.returncode, document


def test_it_gives_up_on_what_it_has_no_recipe_for(tmp_path: Path) -> None:
    code, document = _run(tmp_path, RUNNING_SUM)
    assert code == 1, document
    assert "aten.cumsum" in json.dumps(document)
