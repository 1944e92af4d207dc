"""Kernels for y = relu(x) in the pybind style: times of an honest one, too narrow an index; faults are in the suite."""

import pytest
from conftest import Judge
from suite.cuda_kernels import SOURCE

pytestmark = pytest.mark.gpu

KERNELS = {"relu.cu": SOURCE}
SMALL = "4096, 4096"
ABOVE_INT = "65537, 32768"


def operator(shape: str) -> str:
    return f"""
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x)
def get_inputs():
    return [torch.randn({shape})]
"""


def submission(function: str) -> str:
    return f"""
import torch
import cuda_extension
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return cuda_extension.{function}(x)
"""


def test_an_honest_kernel_is_timed_without_a_reason_for_doubt(judge: Judge) -> None:
    answer = judge(
        submission("default_stream"), operator=operator(SMALL), kernels=KERNELS, call_timeout_s=20, command="verdict"
    )
    assert answer.report.status in ("tie", "slower", "win"), answer.report
    assert not any("disagreed" in note for note in answer.report.notes), answer.report.notes
    assert set(answer.report.latency_ms) == {"eager", "compile", "submission"}


def test_an_index_of_32_bits_is_refused_only_where_it_wraps(judge: Judge) -> None:
    # Bytes: what counts is the number of elements, and so 2 GB are enough.
    def judged(function: str, shape: str) -> str:
        drawn = operator(shape).replace(f"torch.randn({shape})", f"torch.randint(-99, 99, ({shape}), dtype=torch.int8)")
        return judge(submission(function), operator=drawn, kernels=KERNELS, call_timeout_s=60).report.status

    assert judged("narrow_index", SMALL) == "correct"
    assert judged("narrow_index", ABOVE_INT) in ("incorrect", "runtime_error")
    assert judged("wide_index", ABOVE_INT) == "correct"
