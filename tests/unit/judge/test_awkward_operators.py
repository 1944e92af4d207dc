"""Operators of awkward forms, each with a submission that computes the same: right, or refused in words."""

import shutil
from pathlib import Path

import pytest
from judging import SCALE, Answer, Judge, invoke, model_new

from cuda_agent_judge.report import Report

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


def ask(
    name: str, tmp_path: Path, command: str, submission: str | None = None, options: tuple[str, ...] = ()
) -> Answer:
    """Judge the operator's own submission, or another one."""
    session, workspace = tmp_path / "session", tmp_path / "workspace"
    session.mkdir(parents=True)
    shutil.copytree(FOLDER / name, session / "operator", ignore=shutil.ignore_patterns("model_new.py"))
    (session / "session.json").write_text('{"libraries": "any"}')
    (workspace / "kernels").mkdir(parents=True)
    (workspace / "model_new.py").write_text(submission or (FOLDER / name / "model_new.py").read_text())
    return invoke(session, workspace, command, tmp_path / "report.json", options)


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


def test_each_output_is_held_to_the_limits_of_its_dtype(tmp_path: Path) -> None:
    half = ask("half_product", tmp_path / "half", "verify").report
    assert [(e.dtype, e.relative_l2_limit) for e in half.errors] == [("float16", 2e-2)]
    exact = ask("index_and_flag", tmp_path / "exact", "verify").report
    assert [(e.output, e.dtype, e.relative_l2_limit) for e in exact.errors] == [
        ("0", "int64", 0.0),
        ("1", "bool", 0.0),
    ]


@pytest.mark.parametrize(
    ("name", "forward", "said"),
    [
        ("wide_softmax", "return torch.zeros_like(x)", "relative L2 error 1,"),
        ("half_product", "return torch.zeros(96, 64)", "dtype float32"),
        ("half_nan", "return torch.log(x).nan_to_num(0.0)", "NaN or infinity"),
        ("doubled_in_place", "return x.mul_(2).add_(1)", "relative L2 error"),
    ],
)
def test_a_submission_that_would_pass_a_loose_check_is_refused(
    tmp_path: Path, name: str, forward: str, said: str
) -> None:
    submission = model_new(forward) if name != "half_product" else model_new(forward).replace("self, x", "self, x, y")
    answer = ask(name, tmp_path, "verify", submission)
    assert (answer.report.status, answer.code) == ("incorrect", 1), answer.report
    assert said in answer.report.reason


def test_where_torch_compile_fails_eager_is_the_baseline_and_the_report_says_so(tmp_path: Path) -> None:
    report = ask("uncompilable", tmp_path, "verdict").report
    assert report.status in ("win", "tie", "slower", "inconclusive"), report  # as busy as the machine is
    assert report.headline == "eager"
    assert set(report.speedup) == {"eager"}
    assert set(report.latency_ms) == {"eager", "submission"}
    assert any("torch.compile cannot run the operator, eager is the baseline" in note for note in report.notes)


def test_what_an_operator_prints_reaches_neither_stdout_nor_the_report(tmp_path: Path) -> None:
    answer = ask("branch_and_print", tmp_path, "verdict", options=("--json",))
    assert answer.report.status in ("win", "tie", "slower"), answer.report
    assert answer.report.headline == "compile"
    assert "above zero" not in answer.stdout
    assert Report.from_json(answer.stdout.splitlines()[-1]) == answer.report


def test_inputs_and_weights_are_the_operators_whatever_the_submission_brings(tmp_path: Path) -> None:
    own = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        raise RuntimeError("the submission's Model was made")

def get_inputs():
    raise RuntimeError("the submission's get_inputs was called")

get_init_inputs = get_inputs
"""
    source = (FOLDER / "keyword_constructor" / "model_new.py").read_text()
    answer = ask("keyword_constructor", tmp_path, "verify", own + source)
    assert answer.report.status == "correct", answer.report


def test_a_result_that_is_often_the_same_counts(tmp_path: Path) -> None:
    operator = tmp_path / "session" / "operator"
    operator.mkdir(parents=True)
    # Every second draw gives the same result: fifteen in a row are one in ten thousand.
    (operator / "model.py").write_text("""import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return x * 2.5
def get_inputs():
    return [torch.randint(0, 2, (1,)) + torch.ones(16)]
""")
    (tmp_path / "session" / "session.json").write_text('{"libraries": "any"}')
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "model_new.py").write_text(model_new("return x * 2.5"))
    answer = invoke(tmp_path / "session", tmp_path / "workspace", "verify", tmp_path / "report.json")
    assert answer.report.status == "correct", answer.report


@pytest.mark.parametrize(
    ("ending", "words"), [("os.abort()", "killed by SIGABRT"), ("os._exit(0)", "left with exit code 0")]
)
def test_an_operator_that_ends_its_own_process_is_refused_and_not_the_judges_fault(
    judge: Judge, ending: str, words: str
) -> None:
    answer = judge(None, operator=SCALE.replace("return torch.relu(x)", f"import os; {ending}"), command="analyze")
    assert (answer.report.status, answer.code) == ("operator_error", 2)
    assert words in answer.report.reason
