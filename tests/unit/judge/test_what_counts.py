"""What counts of a result: each output and each weight, and nothing where a constant passes."""

import pytest
from judging import LINEAR, SCALE, Judge, model_new
from suite.operators import TWO


def test_each_output_counts(judge: Judge) -> None:
    second_wrong = model_new("return torch.relu(x) * 2, x.sum(1) * 1.01")
    assert judge(second_wrong, operator=TWO).report.status == "incorrect"


def test_all_weights_count(judge: Judge) -> None:
    no_bias = model_new("return x @ self.linear.weight.t()", init="self.linear = torch.nn.Linear(64, 64)")
    assert judge(no_bias, operator=LINEAR).report.status == "incorrect"


def test_files_left_by_a_submission_change_nothing_for_the_next(judge: Judge) -> None:
    names = "('torch.py', 'sitecustomize.py', 'usercustomize.py', 'model.py')"
    leaving = (
        "import os\n"
        "places = [os.path.dirname(os.path.abspath(__file__)), *os.environ.get('TMPDIR', '').split()]\n"
        f"for place in places:\n    for name in {names}:\n        if not os.path.exists(os.path.join(place, name)):\n"
        "            try: open(os.path.join(place, name), 'w').write('raise SystemExit(0)')\n"
        "            except OSError: pass"
    )
    assert judge(model_new("return torch.relu(x)", head=leaving)).report.status == "incorrect"
    assert judge(model_new("return torch.relu(x) * 2")).report.status == "correct"
    assert judge(model_new("return torch.relu(x)")).report.status == "incorrect"


def test_operators_that_a_constant_satisfies_do_not_count(judge: Judge) -> None:
    constant = SCALE.replace("torch.relu(x) * 2", "torch.softmax(x.mean(1, keepdim=True), 1)")
    answer = judge(model_new("return torch.ones(x.shape[0], 1)"), operator=constant)
    assert (answer.report.status, answer.code) == ("not_counted", 1)


@pytest.mark.parametrize(
    ("forward", "status"),
    [
        ("return torch.full((), 1.65)", "incorrect"),  # passes for all that get_inputs() draws
        ("return x.exp().mean()", "correct"),
    ],
    ids=["its constant", "honest"],
)
def test_a_mean_that_is_always_the_same_is_judged_on_harder_inputs(judge: Judge, forward: str, status: str) -> None:
    mean = SCALE.replace("torch.relu(x) * 2", "x.exp().mean()").replace("(256, 1024)", "(256, 1024) * 0.1 + 0.45")
    answer = judge(model_new(forward), operator=mean, libraries="any")
    assert answer.report.status == status, answer.report
    assert any("another scale in each call" in note for note in answer.report.notes)
