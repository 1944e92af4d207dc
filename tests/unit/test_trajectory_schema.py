import json
import subprocess
import sys
from pathlib import Path

from tests.e2e.program import ROOT, environment

from cuda_agent.history import read
from cuda_agent.trajectory import TYPES


def test_the_documentation_of_the_trajectory_is_as_the_code_says() -> None:
    script = ROOT / "scripts/trajectory_schema.py"
    done = subprocess.run([sys.executable, str(script), "--check"], capture_output=True, text=True, env=environment())
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_schema_knows_every_event_and_what_each_must_have() -> None:
    schema = json.loads((ROOT / "docs/trajectory.schema.json").read_text(encoding="utf-8"))
    assert set(schema["$defs"]) == set(TYPES)
    call = schema["$defs"]["tool_call"]
    assert call["required"] == ["turn", "id", "name", "arguments"]
    assert call["properties"]["arguments"] == {
        "anyOf": [{"type": "object", "additionalProperties": {}}, {"type": "null"}]
    }
    assert "person" in call["properties"]["by"]["description"]


def test_the_example_of_the_page_is_one_that_the_reader_takes(tmp_path: Path) -> None:
    page = (ROOT / "docs/trajectory.md").read_text(encoding="utf-8")
    line = page.split("```json\n")[1].split("\n")[0]
    (tmp_path / "t").write_text(line.replace('"seq": 7', '"seq": 0') + "\n")
    assert read(tmp_path / "t")[0].type == "tool_call"
