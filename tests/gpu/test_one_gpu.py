"""The report names the GPU that was used."""

import re

import pytest
from conftest import Judge
from judging import SCALE, model_new

pytestmark = pytest.mark.gpu


def test_the_report_names_the_gpu_and_how_its_clocks_stood(judge: Judge) -> None:
    honest = model_new("return torch.relu(x) * 2")
    report = judge(honest, operator=SCALE, kernels={}, libraries="any", command="profile").report
    assert re.fullmatch(r"(GPU|MIG)-[0-9a-f-]{36}", report.environment["gpu"])
    assert {"sm_mhz", "memory_mhz"} <= report.device_state["before"].keys() & report.device_state["after"].keys()
