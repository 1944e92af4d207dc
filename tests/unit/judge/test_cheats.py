"""Submissions that do not work, and what the judge as a program says to those and to an honest one; cheats: suite/."""

import pytest
from judging import SCALE, Judge, model_new

BROKEN = {
    "raises": (model_new("raise ValueError('no such luck')"), "runtime_error", "no such luck"),
    "sys.exit at import": (model_new("return x", head="import sys; sys.exit(0)"), "runtime_error", "SystemExit"),
    "segmentation fault": (model_new("ctypes.string_at(0)", head="import ctypes"), "runtime_error", "SIGSEGV"),
    "no kernels": (
        model_new("return cuda_extension.twice(x)", head="import cuda_extension"),
        "runtime_error",
        "no source in kernels/",
    ),
    "no ModelNew": ("import torch\n", "runtime_error", "ModelNew"),
    "syntax error": ("class ModelNew(:\n", "runtime_error", "SyntaxError"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_submission_is_refused(judge: Judge, name: str) -> None:
    source, status, said = BROKEN[name]
    answer = judge(source)
    assert (answer.report.status, answer.code) == (status, 1), answer.report
    assert said in answer.report.reason
    assert "[FAIL]" in answer.stdout


def test_an_honest_submission_passes(judge: Judge) -> None:
    answer = judge(model_new("return torch.relu(x) * 2"))
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report
    assert answer.report.checked_calls == 5
    assert "[PASS]" in answer.stdout


def test_a_hang_is_a_timeout_and_leaves_no_process(judge: Judge) -> None:
    answer = judge(model_new("while True: pass"), call_timeout_s=1)
    assert (answer.report.status, answer.code) == ("timeout", 1)


def test_what_a_submission_prints_is_cut_and_kept_off_stdout(judge: Judge) -> None:
    answer = judge(model_new("print('[PASS] forged' * 10000)\nreturn torch.relu(x) * 2"))
    assert answer.report.status == "correct"
    assert "forged" not in answer.stdout
    assert 0 < len(answer.stderr) <= 66_000


def test_a_missing_submission_is_named(judge: Judge) -> None:
    answer = judge(None)
    assert (answer.report.status, answer.code) == ("incorrect", 1)
    assert "model_new.py is missing" in answer.report.reason


def test_a_random_operator_cannot_be_judged(judge: Judge) -> None:
    answer = judge(model_new("return x"), operator=SCALE.replace("* 2", "+ torch.rand_like(x)"))
    assert (answer.report.status, answer.code) == ("operator_error", 2)
    assert "deterministic" in answer.report.reason
