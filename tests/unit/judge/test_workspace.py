"""The workspace's commands hand everything over to the judge."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from judging import HOME, SCALE

TEMPLATE = Path(__file__).resolve().parents[3] / "sandbox_image" / "workspace"
COMMANDS = {
    "analyze": ["python3", "-m", "utils.analysis"],
    "compile": ["bash", "utils/compile.sh"],
    "verify": ["python3", "-m", "utils.verification"],
    "profile": ["python3", "-m", "utils.profiling"],
}
TELL = "import json, os, sys; print(json.dumps([sys.argv[1:], sys.flags.isolated])); raise SystemExit(7)\n"


def environment(tmp_path: Path, **more: str) -> dict[str, str]:
    """`python3` is the interpreter of the tests."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python3").symlink_to(sys.executable)
    return {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}", **more}


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    place = tmp_path / "a work space"
    shutil.copytree(TEMPLATE, place)
    return place


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_asks_the_judge_and_passes_its_exit_code_on(tmp_path: Path, workspace: Path, command: str) -> None:
    home = tmp_path / "judge home"
    home.mkdir()
    (home / "__main__.py").write_text(TELL)
    env = environment(tmp_path, CUDA_AGENT_JUDGE_HOME=str(home), CUDA_AGENT_JUDGE_SESSION=str(tmp_path))
    told = subprocess.run(
        [*COMMANDS[command], "--json", "--x"], cwd=workspace, env=env, capture_output=True, text=True, check=False
    )
    assert told.returncode == 7, told.stderr
    assert json.loads(told.stdout) == [[command, "--workspace", str(workspace), "--json", "--x"], 1]


def test_compile_sh_works_from_anywhere(tmp_path: Path, workspace: Path) -> None:
    (tmp_path / "__main__.py").write_text(TELL)
    env = environment(tmp_path, CUDA_AGENT_JUDGE_HOME=str(tmp_path), CUDA_AGENT_JUDGE_SESSION=str(tmp_path))
    script = workspace / "utils/compile.sh"
    told = subprocess.run(["bash", script], cwd="/", env=env, capture_output=True, text=True, check=False)
    assert json.loads(told.stdout)[0][2] == str(workspace)


@pytest.mark.parametrize("missing", ["CUDA_AGENT_JUDGE_HOME", "CUDA_AGENT_JUDGE_SESSION"])
@pytest.mark.parametrize("command", COMMANDS)
def test_outside_a_sandbox_it_says_so(tmp_path: Path, workspace: Path, command: str, missing: str) -> None:
    names = {"CUDA_AGENT_JUDGE_HOME": str(tmp_path), "CUDA_AGENT_JUDGE_SESSION": str(tmp_path)}
    del names[missing]
    env = environment(tmp_path, **names)
    told = subprocess.run(COMMANDS[command], cwd=workspace, env=env, capture_output=True, text=True, check=False)
    assert told.returncode == 2
    assert told.stderr.startswith(f"[FAIL] ${missing} is not set")
    assert told.stderr.count("\n") == 1


def test_modules_in_the_workspace_are_imported_by_no_process_of_the_judge(tmp_path: Path) -> None:
    # torch.compile starts a Python with -c, which would look for modules where it stands.
    workspace, session = tmp_path / "workspace", tmp_path / "session"
    workspace.mkdir()
    (session / "operator").mkdir(parents=True)
    (session / "operator" / "model.py").write_text(SCALE)
    (session / "session.json").write_text("{}")
    for name in ("struct", "json", "socket", "subprocess", "sitecustomize", "torch", "cuda_agent_judge"):
        (workspace / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'a').write('{name} ')\n")
    line = [sys.executable, "-I", str(HOME), "profile", "--baseline", "--session", str(session)]
    env = {**os.environ, "PYTHONPATH": str(workspace)}
    done = subprocess.run(line, cwd=workspace, env=env, capture_output=True, text=True, check=False)
    assert "Torch Compile" in done.stdout, done.stderr
    assert not (tmp_path / "ran").exists()


def test_a_report_is_written_where_its_relative_name_says(tmp_path: Path) -> None:
    (tmp_path / "session" / "operator").mkdir(parents=True)
    (tmp_path / "session" / "operator" / "model.py").write_text(SCALE)
    (tmp_path / "session" / "session.json").write_text("{}")
    line = [sys.executable, "-I", str(HOME), "verify", "--session", "session", "--report", "report.json"]
    subprocess.run(line, cwd=tmp_path, capture_output=True, check=False)
    assert json.loads((tmp_path / "report.json").read_text())["status"] == "incorrect"
