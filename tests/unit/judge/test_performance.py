"""Where the time goes: what the real judge says of it, and what becomes of a submission that lies about itself."""

import dataclasses
import json
from typing import Any

import pytest
from judging import Judge, model_new

from cuda_agent_judge.performance import performance
from cuda_agent_judge.performance_text import performance_text, short_name
from cuda_agent_judge.ptxas import CompiledKernel
from cuda_agent_judge.report import Latency, Report
from cuda_agent_judge.timeline import Row, Timeline

CHAIN = """
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x * 3) + x
def get_inputs():
    return [torch.randn(512, 1024)]
"""
KERNELS = {
    "chain.cpp": """
#include <cstdint>
extern "C" void chain(const float* x, float* y, int64_t n) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] < 0 ? 0 : 3 * x[i]) + x[i];
}
""",
    "chain_binding.cpp": """
#include "binding_registry.h"
extern "C" void chain(const float* x, float* y, int64_t n);
Tensor fused(const Tensor& x) { Tensor y = empty_like(x); chain(in<float>(x), out<float>(y), x.numel()); return y; }
REGISTER_KERNEL(fused, "(Tensor x) -> Tensor");
""",
}
FUSED = model_new("return cuda_extension.fused(x)", head="import cuda_extension")
DIES_WHEN_RECORDED = model_new(
    "return torch.relu(x * 3) + x",
    head="import os\nfrom cuda_agent_judge import recording\nrecording.record = lambda *given: os._exit(0)",
)


def test_the_analysis_says_where_eager_spends_its_time(judge: Judge) -> None:
    answer = judge(None, operator=CHAIN, command="analyze")
    found = answer.report.performance
    assert found is not None
    assert {row["name"]: row["calls"] for row in found["operations"]} == {"mul": 1, "relu": 1, "add": 1}
    assert all(row["us"] > 0 for row in found["operations"])
    assert found["need"]["read_bytes"] == found["need"]["written_bytes"] == 512 * 1024 * 4
    assert found["need"]["certain"]
    assert found["floor"]["ms"] > 0
    assert "its time by operation" in answer.stdout
    assert "measured ceilings with" in answer.stdout


def test_a_profile_says_what_one_call_consists_of(judge: Judge) -> None:
    answer = judge(FUSED, operator=CHAIN, command="profile", kernels=KERNELS, libraries="own")
    found = answer.report.performance
    assert found is not None
    run = found["submission"]
    assert [(row["name"], row["kind"], row["calls"]) for row in run["rows"]] == [("fused", "operation", 1)]
    assert 0 < run["busy_us"] <= run["span_us"]
    rates = found["rates"]
    least, median = found["floor"]["bytes_ms"], answer.report.latency_ms["submission"].median
    assert set(rates) == {"eager", "compile", "submission"}
    assert rates["submission"]["memory_share"] == pytest.approx(least / median)
    assert rates["submission"]["gb_s"] == pytest.approx(2 * 512 * 1024 * 4 / median / 1e6)
    assert all(found["judgement"].values())
    assert found["at_limit"] == ""
    assert "fused 1x" in answer.stdout
    assert any(line.startswith("peak memory: eager") for line in answer.report.performance_lines)


def test_a_submission_that_dies_when_it_is_recorded_keeps_its_verdict(judge: Judge) -> None:
    report = judge(DIES_WHEN_RECORDED, operator=CHAIN, command="profile").report
    assert report.status in ("tie", "slower", "win", "inconclusive")  # a loaded machine may be too noisy to say which
    assert report.speedup
    assert report.performance is not None
    assert "submission" not in report.performance
    assert any("could not be recorded" in note for note in report.notes)


GPU = {
    "ceilings": {
        "memory_gb_s": [{"bytes": 10**9, "read": 4000.0, "write": 3000.0, "copy": 3600.0}],
        "tflop_s": {"fp32": 50.0},
        "cache_bytes": 50_000_000,
        "threads": 0,
    },
    "device": {"name": "a GPU", "sm": "90", "multiprocessors": 132},
    "need": {"read_bytes": 4 * 10**8, "written_bytes": 0, "flops": {"fp32": 10**8}, "certain": True},
}
TWO = Timeline(
    (
        Row("add_to(float const*, float*, int)", "kernel", 1, 80.0, (16, 1, 1), (256, 1, 1), 12, 33024),
        Row("void (anonymous namespace)::f<2>(float*)", "kernel", 2, 40.0, (256, 1, 1), (128, 2, 1), 64, 0),
        Row("Memset", "fill", 1, 1.0),
    ),
    span_us=180.0,
    busy_us=121.0,
    launches=4,
)
SPILLING = CompiledKernel("_Z6add_toPKfPfi", "90a", 12, 32000, spill_stores=8, spill_loads=12)


def seen(latencies: dict[str, float]) -> dict[str, Any]:
    times = {side: Latency(ms, ms, ms, 9) for side, ms in latencies.items()}
    return performance(
        "cuda", GPU, times, headline="compile", timeline=TWO, compiled=[SPILLING], enqueue_us={"submission": 35.2}
    )


def test_of_each_kernel_launch_compiler_and_occupancy_are_told() -> None:
    lines = performance_text(seen({"compile": 0.5, "submission": 0.2}))
    assert (
        "  add_to 1x 80 us (66 %): grid 16, block 256, 12 registers, 33 kB shared, 20 B spilled, occupancy 75 %, "
        "limited by shared memory; 116 of 132 multiprocessors have no block"
    ) in lines
    assert (
        "  (anonymous namespace)::f<2> 2x 40 us (33 %): grid 256, block 128x2, 64 registers, occupancy 50 %, "
        "limited by registers"
    ) in lines
    assert any(line.startswith("the host enqueues a call in: submission 35.2 us") for line in lines)
    assert "  Memset 1x 1 us (1 %) [fill]" in lines
    assert "one call recorded: launches 4, running 121 us of 180 us; 59 us between them on the device" in lines


def test_a_side_that_the_host_enqueues_more_slowly_than_it_runs_is_launch_bound() -> None:
    times = {side: Latency(0.02, 0.02, 0.02, 9) for side in ("compile", "submission")}
    enqueue = {"compile": 55.0, "submission": 12.0}
    found = performance("cuda", GPU, times, headline="compile", enqueue_us=enqueue, in_a_row_us={"compile": 21.0})
    assert found["launch_bound"] == ["compile"]
    lines = performance_text(found)
    assert any("; torch.compile: launch-bound, since the host takes longer" in line for line in lines)
    assert any(line.endswith("a call takes: torch.compile 21 us") for line in lines)


def test_gaps_are_judged_and_the_limit_of_a_baseline_too() -> None:
    assert "launch-bound: 4 kernels run 121 us" in seen({"compile": 0.5, "submission": 0.2})["judgement"]["submission"]
    limit = seen({"compile": 0.101})
    assert limit["at_limit"].startswith("no kernel can win by 5 %")
    assert performance_text(limit)[-1] == limit["at_limit"]
    assert Report("profile", "measured", performance=limit).at_limit == limit["at_limit"]


@pytest.mark.parametrize("there", [None, {}, {"at_limit": ""}, {"at_limit": 7, "lines": 3}, {"lines": [4]}])
def test_a_report_that_says_nothing_of_it_has_no_limit_and_no_lines(there: dict[str, Any] | None) -> None:
    report = Report("profile", "measured", performance=there)
    assert (report.at_limit, report.performance_lines) == ("", [])


def test_what_could_not_be_found_out_is_one_line() -> None:
    made = performance("cuda", {"unknown": "OutOfMemoryError: no room"}, {}, headline="compile")
    assert performance_text(made) == ["what the operator costs here could not be found out: OutOfMemoryError: no room"]


def test_reports_of_before_are_still_read() -> None:
    old = dataclasses.asdict(Report("profile", "win"))
    del old["performance"]
    old["interval"] = {}
    assert Report.from_json(json.dumps(old)).performance is None


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("scale(float const*, float*)", "scale"),
        ("void row<8, (Kind)1>(float const*)", "row<8, (Kind)1>"),
        ("void (anonymous namespace)::f<2>(float4*)", "(anonymous namespace)::f<2>"),
        ("ampere_sgemm_128x64_tn", "ampere_sgemm_128x64_tn"),
        ("Memcpy DtoD (Device -> Device)", "Memcpy DtoD"),
        ("void " + "g" * 80 + "(int)", "g" * 57 + "..."),
    ],
)
def test_kernels_have_short_names(name: str, short: str) -> None:
    assert short_name(name) == short
