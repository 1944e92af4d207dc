"""One GPU, and only that: a submission that goes to another one fails, the report names the one that was used."""

import re

import pytest
from conftest import Judge
from judging import SCALE, model_new

pytestmark = pytest.mark.gpu


def test_a_submission_cannot_use_another_gpu(judge: Judge) -> None:
    """One device is visible: the judge sees to that itself."""
    elsewhere = model_new("return (torch.relu(x.to('cuda:1')) * 2).to(x.device)")
    report = judge(elsewhere, operator=SCALE, kernels={}, libraries="any").report
    assert report.status == "runtime_error"
    assert "device" in report.reason


def test_the_report_names_the_gpu_and_how_its_clocks_stood(judge: Judge) -> None:
    honest = model_new("return torch.relu(x) * 2")
    report = judge(honest, operator=SCALE, kernels={}, libraries="any", command="profile").report
    assert re.fullmatch(r"(GPU|MIG)-[0-9a-f-]{36}", report.environment["gpu"])
    assert {"sm_mhz", "memory_mhz"} <= report.device_state["before"].keys() & report.device_state["after"].keys()
