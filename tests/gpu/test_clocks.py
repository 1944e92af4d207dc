"""The throughput probe on a GPU: it bears honest claims out, and finds a clock that lies."""

import pytest
from conftest import Judge

pytestmark = pytest.mark.gpu

OPERATOR = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.randn({rows}, 4096)]
"""
SUBMISSION = """
import gc
import torch
{head}
class ModelNew(torch.nn.Module):
    def forward(self, x):
        for _ in range({times}): y = torch.relu(x) * 2
        return y
"""
FORGED = """
for one in gc.get_objects():
    if type(one).__name__ == "Runner": one._elapsed = lambda start, end: 0.001
"""


@pytest.mark.parametrize("rows", [1024, 4096, 65536])
def test_an_honest_clock_stands_and_both_sides_are_probed(judge: Judge, rows: int) -> None:
    source = SUBMISSION.format(head="", times=1)
    operator = OPERATOR.format(rows=rows)
    answer = judge(source, operator=operator, kernels={}, command="profile", libraries="any")
    assert answer.report.status in ("tie", "slower"), answer.report
    assert not any("own clock" in note for note in answer.report.notes), answer.report.notes
    assert answer.report.performance is not None
    in_a_row = answer.report.performance["in_a_row_us"]
    assert set(in_a_row) == {"compile", "submission"}
    for side, us in in_a_row.items():
        assert 0.3 < us / (1e3 * answer.report.latency_ms[side].median) < 1.2, (side, answer.report)


@pytest.mark.parametrize("times", [1, 8])
def test_a_clock_that_says_next_to_nothing_is_tampering(judge: Judge, times: int) -> None:
    source = SUBMISSION.format(head=FORGED, times=times)
    operator = OPERATOR.format(rows=16384)
    answer = judge(source, operator=operator, kernels={}, command="profile", libraries="any")
    assert (answer.report.status, answer.code) == ("tampering", 1), answer.report
