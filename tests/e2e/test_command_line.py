import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from tests.e2e.program import GOOD, cuda_agent, environment

IMPORTS = """
import sys
before = set(sys.modules)
from cuda_agent.cli import main
try:
    main(["--help"])
except SystemExit as end:
    assert end.code == 0, end.code
print("\\n".join(sorted({name.partition(".")[0] for name in set(sys.modules) - before})), file=sys.stderr)
"""
LOADED_BY_TYPER = """
import sys
before = set(sys.modules)
import typer, typer.rich_utils, rich.console, rich.table, rich.panel, rich.markdown
print("\\n".join(sorted({name.partition(".")[0] for name in set(sys.modules) - before})), file=sys.stderr)
"""


def packages_loaded(script: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True, check=True)
    loaded = {name for name in done.stderr.split() if not name.startswith("_sysconfigdata")}
    return loaded - sys.stdlib_module_names


def test_help_loads_typer_rich_and_what_they_load() -> None:
    loaded = packages_loaded(IMPORTS)
    assert "typer" in loaded
    assert loaded - packages_loaded(LOADED_BY_TYPER) <= {"cuda_agent", "cuda_agent_tools"}


def test_help_takes_under_three_tenths_of_a_second_of_cpu(tmp_path: Path) -> None:
    def once() -> float:
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert cuda_agent("--help", cwd=tmp_path).returncode == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    once()  # writes the bytecode
    assert min(once() for _ in range(3)) < 0.3


def test_version(tmp_path: Path) -> None:
    done = cuda_agent("--version", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (0, "cuda-agent 0.1.0\n")


LONG = "x" * 300
BAD = [
    (["optimize", "none.py"], 2, "'none.py' does not exist"),
    (["optimize", "broken.py"], 2, "'broken.py' has a syntax error in line 1"),
    (["optimize", "latin.py"], 2, "not UTF-8"),
    (["optimize", "empty.py"], 2, "no `class Model`"),
    (["optimize", "empty folder"], 2, "model.py' does not exist"),
    (["optimize", "good.py", "--model", "gpt-9"], 2, "no model 'gpt-9'"),
    (["optimize", "good.py", "--model", "antropic/claude"], 2, "did you mean 'anthropic'?"),
    (["optimize", "good.py", "--model", "anthropic/claude"], 2, "$ANTHROPIC_API_KEY is not set"),
    (["optimize", "good.py", "--model", "x", "--api-base", "127.0.0.1:8000"], 2, "http://127.0.0.1:8000/v1"),
    (["optimize", "good.py", "--model", "openai/x", "--api-key-env", "NO_SUCH_KEY"], 2, "$NO_SUCH_KEY is not set"),
    (["optimize", "good.py", "--model", "scripted:none.json"], 2, "none.json"),
    (["optimize", "good.py", "--sandbox", "docker", "--python", "x"], 2, "leave it out with --sandbox docker"),
    (["optimize", "good.py", "--max-turns", "0"], 2, "max_turns"),
    (["optimize", "good.py", "--target", "tpu"], 2, "tpu"),
    (["optimize", "good.py", "--python", "none/python"], 2, "none/python"),
    (["optimize"], 2, "MODEL.py"),
    (["optimise", "good.py"], 2, "optimise"),
    (["judge", "good.py", "empty folder"], 2, "model_new.py"),
    (["judge", "good.py", "good.py", "--sandbox", "docker", "--python", "x"], 2, "leave it out with --sandbox docker"),
    (["fork", "empty folder", "1", "--python", "none/python"], 2, "empty folder"),
    (["judge", "none.py", "empty folder"], 2, "'none.py' does not exist"),
    (["batch", ""], 2, "An argument is empty"),
    (["optimize", LONG], 2, "File name too long"),
    (["debug", LONG], 2, "File name too long"),
    (["batch", LONG], 2, "File name too long"),
    (["batch", "loop"], 2, "Too many levels of symbolic links"),
    (["show", LONG], 2, "File name too long"),
    (["resume", LONG], 2, "File name too long"),
    (["judge", LONG, "good.py"], 2, "File name too long"),
    (["judge", "good.py", LONG], 2, "has no model_new.py"),
    (["show", "empty folder"], 2, "empty folder"),
]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    folder = tmp_path / "größe mit platz"
    (folder / "empty folder").mkdir(parents=True)
    (folder / "good.py").write_text(GOOD)
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "latin.py").write_bytes(b"# caf\xe9\n")
    (folder / "empty.py").write_text("")
    (folder / "loop").symlink_to("loop")
    return folder


@pytest.mark.parametrize(("arguments", "code", "words"), BAD)
def test_bad_input_is_one_sentence_the_right_code_and_nothing_written(
    place: Path, arguments: list[str], code: int, words: str
) -> None:
    before = sorted(place.rglob("*"))
    done = cuda_agent(*arguments, cwd=place)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr
    assert done.stderr.count("\n") == 1
    assert sorted(place.rglob("*")) == before


def test_a_container_without_an_engine_is_one_sentence_before_anything_starts(place: Path) -> None:
    before = sorted(place.rglob("*"))
    env = environment(DOCKER_HOST="unix:///nowhere/docker.sock")
    done = cuda_agent("optimize", "good.py", "--sandbox", "docker", cwd=place, env=env)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.count("\n") == 1
    assert "/nowhere/docker.sock" in done.stderr
    assert sorted(place.rglob("*")) == before


@pytest.mark.parametrize("arguments", [BAD[0][0], BAD[5][0], BAD[-1][0]])
def test_with_json_the_error_is_the_one_document(place: Path, arguments: list[str]) -> None:
    done = cuda_agent(*arguments, "--json", cwd=place)
    error = json.loads(done.stdout)["error"]
    assert error["exit_code"] == done.returncode == 2
    assert error["message"] in done.stderr


def test_a_run_folder_that_exists_is_refused_and_stays_as_it_is(place: Path) -> None:
    (place / "my run").mkdir()
    (place / "my run/kept").write_text("x")
    done = cuda_agent("optimize", "good.py", "--run-dir", "my run", cwd=place)
    assert done.returncode == 2
    assert "exists already" in done.stderr
    assert [path.name for path in (place / "my run").iterdir()] == ["kept"]


def test_an_unknown_key_in_the_settings_file_is_named(place: Path, tmp_path: Path) -> None:
    file = tmp_path / "config/cuda-agent/settings.toml"
    file.parent.mkdir(parents=True)
    file.write_text("modle = 'builtin'\n")
    done = cuda_agent("optimize", "good.py", cwd=place, env=environment(XDG_CONFIG_HOME=str(tmp_path / "config")))
    assert done.returncode == 2
    assert "'modle'" in done.stderr
    assert os.path.basename(file) in done.stderr


RUN_IMPORTS = """
import sys
before = set(sys.modules)
from cuda_agent.runs import judged, single, summary
from cuda_agent.config import Settings
from cuda_agent.runs.models import make
from cuda_agent.cli import progress
assert make(Settings(operator="x"), {}).name == "builtin"
print("\\n".join(sorted({name.partition(".")[0] for name in set(sys.modules) - before})), file=sys.stderr)
"""


def test_a_run_of_builtin_loads_no_provider_and_no_docker() -> None:
    own = {"cuda_agent", "cuda_agent_tools", "cuda_agent_judge"}
    settings = {"pydantic", "pydantic_core", "annotated_types", "typing_extensions", "typing_inspection"}
    prompts = {"jinja2", "markupsafe"}
    assert packages_loaded(RUN_IMPORTS) - packages_loaded(LOADED_BY_TYPER) <= own | settings | prompts
