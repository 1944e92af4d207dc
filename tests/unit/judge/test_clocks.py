"""Submissions that rewrite the clock of their own process, before the real judge: the judge's clocks find them."""

from judging import SCALE, Judge, model_new

FORGED = "import cuda_agent_judge.runner as runner\nrunner._now_ns = lambda: 0"
SLOW = "for _ in range(200): y = torch.relu(x) * 2\nreturn y"
OTHER_IN_A_ROW = """
seen, self.seen = self.seen, (x.data_ptr(), x._version)
if seen == self.seen: return torch.zeros_like(x)
for _ in range(40): y = torch.relu(x) * 2
return y"""


def test_a_clock_that_says_nothing_of_slow_calls_is_tampering(judge: Judge) -> None:
    answer = judge(model_new(SLOW, head=FORGED), command="profile")
    assert (answer.report.status, answer.code) == ("tampering", 1), answer.report
    assert "queued in a row" in answer.report.reason


def test_work_that_is_left_out_where_calls_are_queued_in_a_row_is_found(judge: Judge) -> None:
    source = model_new(OTHER_IN_A_ROW, head=FORGED, init="self.seen = None")
    answer = judge(source, command="profile")
    assert (answer.report.status, answer.code) == ("incorrect", 1), answer.report
    assert "timed call" in answer.report.reason


def test_where_calls_cannot_be_repeated_on_the_same_inputs_a_forged_clock_gives_way_to_the_judges(judge: Judge) -> None:
    """The operator writes to its input, so that a second call would compute something else."""
    operator = SCALE.replace("torch.relu(x) * 2", "x.mul_(0.5)")
    source = model_new("for _ in range(200): x.mul_(1.0)\nreturn x.mul_(0.5)", head=FORGED)
    answer = judge(source, operator=operator, command="profile")
    assert answer.report.status == "slower", answer.report
    assert any("disagreed" in note for note in answer.report.notes)
