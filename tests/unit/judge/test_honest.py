"""An honest submission that is nearer the truth than the reference; the others are in suite/."""

from judging import Judge, model_new

CANCELLING = """import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return (torch.exp(-x) - 0.5) ** 2
def get_inputs():
    return [(0.69 + 0.002 * torch.rand(4096)).half()]
"""


def test_a_result_nearer_the_truth_than_the_references_own_rounding_is_right_in_timed_calls_too(judge: Judge) -> None:
    """Half precision rounds after each operation, and what is left of the difference is mostly that rounding."""
    source = model_new("return ((torch.exp(-x.float()) - 0.5) ** 2).half()")
    answer = judge(source, operator=CANCELLING, command="profile")
    assert answer.report.status in ("win", "tie", "slower", "inconclusive"), answer.report
    assert answer.report.checked_calls > 5
