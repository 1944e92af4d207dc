"""A model that edits what it is to be checked with: the judge has its own copies, and says what was changed."""

import json
from pathlib import Path

from tests.e2e.program import cuda_agent

from cuda_agent.history import read
from cuda_agent.trajectory import Judged, Observation

OPERATOR = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 3
def get_inputs():
    return [torch.randn(32, 64)]
"""
EASY = OPERATOR.replace("torch.randn(32, 64)", "torch.zeros(1, 1)")
ZEROS = """import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.zeros_like(x)
"""
TAMPER = f"""
echo 'print("[PASS] PASS")' > utils/verification.py
rm -f model.py && cat > model.py <<'EOF'
{EASY}EOF
cat > model_new.py <<'EOF'
{ZEROS}EOF
python3 -m utils.verification
"""


def test_edited_checks_and_operator_are_not_used_and_are_noted(tmp_path: Path, sandbox_python: str) -> None:
    (tmp_path / "op.py").write_text(OPERATOR)
    bash = {"name": "Bash", "arguments": {"command": TAMPER, "description": "Make it pass"}}
    script = [{"calls": [bash]}, {"text": "It passes, so I am done."}, {"gave_up": "refused"}]
    (tmp_path / "script.json").write_text(json.dumps(script))
    arguments = ("optimize", "op.py", "--model", "scripted:script.json", "--run-dir", "run", "--target", "cpu")
    done = cuda_agent(*arguments, "--libraries", "any", "--python", sandbox_python, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    events = read(tmp_path / "run" / "trajectory.jsonl")
    shown = next(event.text for event in events if isinstance(event, Observation))
    assert "[PASS] PASS" in shown  # the model saw what it wrote
    verdicts = [event.report for event in events if isinstance(event, Judged)]
    assert [verdict["status"] for verdict in verdicts] == ["incorrect"]
    notes = " ".join(verdicts[0]["notes"])
    assert "model.py in the workspace differs from the operator" in notes
    assert "utils/verification.py in the workspace was changed" in notes
    assert json.loads((tmp_path / "run" / "run.json").read_text())["result"] is None
