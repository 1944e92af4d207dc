"""Operators of awkward forms, each with a submission that computes the same with PyTorch: right, or refused in words."""

import shutil
from pathlib import Path

import pytest
from judging import Answer, Bench, Judge, invoke, model_new

FOLDER = Path(__file__).resolve().parents[2] / "operators_awkward"

RIGHT = {
    "batch_norm": "",
    "bfloat16_layer": "",
    "branch_and_print": "",
    "doubled_in_place": "",
    "dropout": "",
    "half_nan": "",
    "half_product": "",
    "index_and_flag": "",
    "int_and_none": "",
    "keyword_constructor": "",
    "mapping_argument": "",
    "needs_neighbour": "",
    "no_constructor_inputs": "",
    "parameter_alone": "",
    "recurrent_states": "",
    "scalar_result": "",
    "transposed_input": "",
    "wide_softmax": "",
    "dropout_alone": "returns an input unchanged",
}
"""With what a note says of them."""

REFUSED = {
    "added_noise": ("operator_error", 2, "must be deterministic"),
    "lost_neighbour": ("operator_error", 2, "put a_neighbour_who_left.py into the folder of model.py"),
    "softmax_of_one": ("not_counted", 1, "does not depend on its inputs"),
}


def ask(name: str, tmp_path: Path, command: str, submission: str | None = None) -> Answer:
    """Judge the operator's own submission, or another one."""
    session, workspace = tmp_path / "session", tmp_path / "workspace"
    session.mkdir()
    shutil.copytree(FOLDER / name, session / "operator", ignore=shutil.ignore_patterns("model_new.py"))
    (session / "session.json").write_text('{"libraries": "any"}')
    (workspace / "kernels").mkdir(parents=True)
    (workspace / "model_new.py").write_text(submission or (FOLDER / name / "model_new.py").read_text())
    return invoke(session, workspace, command, tmp_path / "report.json")


def test_every_operator_of_the_folder_is_judged_here() -> None:
    names = {path.parent.name for path in FOLDER.glob("*/model.py")}
    assert names == RIGHT.keys() | REFUSED.keys() | {"uncompilable"}


@pytest.mark.parametrize("name", RIGHT)
def test_a_submission_that_computes_the_same_is_right(name: str, tmp_path: Path) -> None:
    answer = ask(name, tmp_path, "verify")
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
    assert RIGHT[name] in " ".join(answer.report.notes)


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_judged_or_says_nothing_gets_one_sentence(name: str, tmp_path: Path) -> None:
    status, code, said = REFUSED[name]
    answer = ask(name, tmp_path, "verify")
    assert (answer.report.status, answer.code) == (status, code), answer.report
    assert said in answer.report.reason
    assert "\n" not in answer.report.reason
