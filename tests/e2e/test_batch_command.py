"""`cuda-agent batch` with the program itself: three operators, two of which cannot be used, each in its own way."""

import csv
import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.e2e.llm_server import error, serving
from tests.e2e.program import GOOD, cuda_agent, environment

OPERATORS = {
    "1_healthy.py": GOOD,
    "2_bad.py": GOOD + "def (\n",
    "10_crash.py": "import os\n" + GOOD.replace("return x.relu()", "os.abort()"),
}
UNUSABLE = {"2_bad": "syntax error", "10_crash": "SIGABRT"}


@dataclass
class Batch:
    folder: Path
    arguments: tuple[str, ...]
    done: subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def batch(tmp_path_factory: pytest.TempPathFactory, sandbox_python: str) -> Batch:
    folder = tmp_path_factory.mktemp("batch of three")
    (folder / "ops").mkdir()
    for name, text in OPERATORS.items():
        (folder / "ops" / name).write_text(text)
    (folder / "script.json").write_text('[{"gave_up": "seen enough"}]')
    where = ("--batch-dir", "b", "--python", sandbox_python, "--target", "cpu", "--json")
    arguments = ("batch", "ops", "--model", "scripted:script.json", "--source", "made up", *where)
    return Batch(folder, arguments, cuda_agent(*arguments, cwd=folder))


def test_the_healthy_one_ends_and_the_others_are_said_to_be_unusable(batch: Batch) -> None:
    assert batch.done.returncode == 1, batch.done.stderr
    document = json.loads(batch.done.stdout)
    assert document["status"] == "done"
    numbers = document["results"][0]
    assert (numbers["counted"], numbers["by_category"]["unusable"]) == (1, 2)
    with (batch.folder / "b/results.csv").open() as file:
        rows = {row["job"]: row for row in csv.DictReader(file)}
    assert list(rows) == ["1_healthy", "2_bad", "10_crash"]
    assert (rows["1_healthy"]["stop"], rows["1_healthy"]["category"]) == ("gave_up", "counted")
    for name, words in UNUSABLE.items():
        assert rows[name]["category"] == "unusable", rows[name]
        assert words in rows[name]["message"]
    assert {row["source"].partition(";")[0] for row in rows.values()} == {"made up"}


def test_the_same_command_again_runs_nothing(batch: Batch) -> None:
    before = (batch.folder / "b/attempts.jsonl").read_bytes()
    again = cuda_agent(*batch.arguments, cwd=batch.folder)
    assert again.returncode == 1
    assert (batch.folder / "b/attempts.jsonl").read_bytes() == before
    assert json.loads(again.stdout)["results"] == json.loads(batch.done.stdout)["results"]


def test_each_run_is_an_ordinary_run_and_the_batch_can_be_shown_and_compared(batch: Batch) -> None:
    run = cuda_agent("show", "b/runs/1_healthy", cwd=batch.folder)
    assert (run.returncode, "the model gave up" in run.stdout) == (0, True)
    whole = cuda_agent("show", "b", cwd=batch.folder)
    assert "- 2_bad: " in whole.stdout
    assert "operators: made up; sha256 " in whole.stdout
    compared = cuda_agent("compare", "b", "b", "--json", cwd=batch.folder)
    assert json.loads(compared.stdout)["passed"]["difference"]["value"] == 0.0
    assert cuda_agent("compare", "b", "ops", cwd=batch.folder).returncode == 2


def test_a_selection_that_leaves_nothing_is_one_sentence_before_anything_runs(batch: Batch) -> None:
    done = cuda_agent(*batch.arguments, "--filter", "nothing", cwd=batch.folder)
    assert done.returncode == 2
    assert "--filter and --level leave none" in json.loads(done.stdout)["error"]["message"]
    assert len(done.stderr.splitlines()) == 1


def test_a_key_that_is_not_accepted_pauses_the_batch_instead_of_failing_every_run(
    tmp_path: Path, sandbox_python: str
) -> None:
    (tmp_path / "ops").mkdir()
    for number in range(3):
        (tmp_path / f"ops/{number}.py").write_text(GOOD)
    with serving([error(401, "invalid api key")] * 3) as server:
        done = cuda_agent(
            *("batch", "ops", "--batch-dir", "b", "--workers", "1", "--python", sandbox_python, "--target", "cpu"),
            *("--model", "some-model", "--api-key-env", "PLANTED", "--api-base", server.base, "--json"),
            cwd=tmp_path,
            env=environment(PLANTED="sk-planted"),
        )
    assert done.returncode == 3, done.stderr
    document = json.loads(done.stdout)
    assert document["status"] == "paused"
    assert "does not accept the key; set the right one ($PLANTED)" in document["message"]
    assert "3 of 3 are left to do" in done.stderr
    assert [path.name for path in (tmp_path / "b/runs").iterdir()] == ["0"]
