import inspect
from pathlib import Path

import pytest

from cuda_agent.batch import command
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.prepared import default_folder, pinned
from cuda_agent.cli.batch import batch
from cuda_agent.cli.optimize import optimize
from cuda_agent.config import Settings
from cuda_agent.runs.place import Place

JOB = Job("op", "op.py", "/ops/op.py", "op", "", "vendor/name", "sha")
NOT_OF_A_BATCH = {"operator", "run_dir", "gpu"}


def test_every_setting_of_a_run_can_be_given_to_a_batch() -> None:
    of_a_run = set(inspect.signature(optimize).parameters) - NOT_OF_A_BATCH
    assert of_a_run - set(inspect.signature(batch).parameters) == set()


def test_a_run_is_told_every_setting_so_that_it_chooses_nothing_itself() -> None:
    given = Settings(operator=Path("ops"), max_turns=7, time_limit_s=60.5, temperature=0.5, python=Path("/py"))
    words = command.begin(("cuda-agent",), given, JOB, Path("/b/runs/op"))
    assert words[:4] == ("cuda-agent", "optimize", "/ops/op.py", "--run-dir=/b/runs/op")
    assert {"--model=vendor/name", "--max-turns=7", "--time-limit=60.5", "--python=/py", "--polish=0"} <= set(words)
    known = {f"--{name.replace('_', '-')}" for name in inspect.signature(optimize).parameters}
    known |= {"--time-limit", "--operator-timeout", "--json"}
    assert {word.partition("=")[0] for word in words[3:]} - known == set()
    said = {word.partition("=")[0] for word in words} | {
        "--time-limit-s",
        "--operator-timeout-s",
        "--image",
        "--operator",
        "--gpu",
    }
    unset = {f"--{key.replace('_', '-')}" for key, value in given.model_dump().items() if value is None}
    assert {f"--{name.replace('_', '-')}" for name in Settings.model_fields} - said - unset == set()


def test_what_was_chosen_for_the_first_run_holds_for_all() -> None:
    place = Place("local", "/usr/bin/python3", "cpu", True, ())
    chosen = pinned(Settings(operator=Path("ops")), place)
    assert (chosen.sandbox, chosen.target, chosen.python) == ("local", "cpu", Path("/usr/bin/python3"))


@pytest.mark.parametrize(("source", "name"), [("a/level1", "level1"), ("@chosen.txt", "chosen"), ("x/", "x")])
def test_the_same_operators_have_the_same_default_folder(source: str, name: str) -> None:
    assert default_folder(Path(source)) == Path(f"runs/batch-{name}")
