"""Honest submissions that a naive judge would refuse."""

import pytest
from judging import LINEAR, SCALE, Judge, model_new

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


IMAGES = SCALE.replace("(256, 1024)", "(4, 8, 16, 32)")
HONEST = {
    "channels last": (
        IMAGES,
        model_new("return (torch.relu(x) * 2).contiguous(memory_format=torch.channels_last)"),
    ),
    "scratch memory of its own, in place": (
        SCALE,
        model_new(
            "if self.s is None: self.s = torch.empty_like(x)\nself.s.copy_(x)\n"
            "self.s.relu_().mul_(2)\nreturn self.s.clone()",
            init="self.s = None",
        ),
    ),
    "long to construct": (SCALE, model_new("return torch.relu(x) * 2", head="import time", init="time.sleep(5)")),
    "slow at its first call": (
        SCALE,
        model_new(
            "if not self.built:\n    time.sleep(3)\n    self.built = True\nreturn torch.relu(x) * 2",
            head="import time",
            init="self.built = False",
        ),
    ),
    "buffers that are not persistent": (
        LINEAR,
        model_new(
            "return self.linear(x) * self.one",
            init="self.linear = torch.nn.Linear(64, 64)\nself.register_buffer('one', torch.ones(()), persistent=False)",
        ),
    ),
    "try and finally": (
        SCALE,
        model_new("try:\n    return torch.relu(x) * 2\nfinally:\n    pass", head="class Kernel:\n    pass"),
    ),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_submission_passes(judge: Judge, name: str) -> None:
    operator, source = HONEST[name]
    answer = judge(source, operator=operator)
    assert (answer.report.status, answer.code) == ("correct", 0), answer.report


def test_a_ring_of_outputs_passes_where_they_need_not_last(judge: Judge) -> None:
    ring = model_new(
        "self.n += 1\ny = self.ring[self.n % 3]\ny.copy_(torch.relu(x) * 2)\nreturn y",
        init="self.n = 0\nself.ring = [torch.empty(256, 1024) for _ in range(3)]",
    )
    assert judge(ring, output_lifetime="next-call").report.status == "correct"
