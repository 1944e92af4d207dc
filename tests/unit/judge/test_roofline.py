"""What an operator needs at least, how sure that is, and what is said of a call by it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_agent_judge.analyze import traced
from cuda_agent_judge.bounds import Measured, at_limit, impossible, judgement
from cuda_agent_judge.ceilings import ceilings
from cuda_agent_judge.roofline import Ceilings, Floor, MemoryRate, Need, floor, need_of

MB = 10**6
GPU = Ceilings(
    (MemoryRate(8 * MB, 8000, 6000, 9000), MemoryRate(1000 * MB, 4000, 3000, 3600)),
    {"fp32": 50.0, "tf32": 400.0, "half": 800.0},
    cache_bytes=50 * MB,
)
CPU = Ceilings((MemoryRate(MB, 200, 200, 300), MemoryRate(100 * MB, 20, 10, 15)), {"fp32": 0.2}, threads=2)
X = torch.randn(8, 16)
SURE = Floor(1.0, 0.1, 4000.0, certain=True)


class Of(torch.nn.Module):
    def __init__(self, function: Callable[..., Any], **buffers: torch.Tensor) -> None:
        super().__init__()
        self.function = function
        for name, value in buffers.items():
            self.register_buffer(name, value)

    def forward(self, *given: torch.Tensor) -> Any:
        return self.function(*given, **dict(self.named_buffers()))


def need(function: Callable[..., Any], *inputs: torch.Tensor, precision: str = "ieee", **buffers: torch.Tensor) -> Need:
    return need_of(traced(Of(function, **buffers), list(inputs)), precision=precision)


@pytest.mark.parametrize(
    "function",
    [
        torch.relu,
        lambda x: torch.tanh(x * 2) + x,
        lambda x: x.sum(1),
        lambda x: torch.softmax(x, -1),
        lambda x: x.T.contiguous().view(-1),
        lambda x: torch.nn.functional.layer_norm(x, (16,)),
    ],
)
def test_every_byte_is_needed_where_each_element_decides(function: Callable[..., Any]) -> None:
    assert need(function, X).certain


@pytest.mark.parametrize(
    "function",
    [
        torch.tril,
        lambda x: x @ x.T,
        lambda x: torch.where(x > 0, x, -x),
        lambda x: (x * 2)[:, :3],
        lambda x: x[:, ::2] * 1,
        lambda x: torch.nn.functional.max_pool1d(x, 2, stride=4),
        lambda x: (x + 1, torch.exp(x * 3).sum())[0],
        lambda x: x * torch.ones(16),
        lambda x: x * x.max().item(),
    ],
)
def test_bytes_that_somebody_may_do_without_are_not_called_needed(function: Callable[..., Any]) -> None:
    assert not need(function, X).certain


def test_zeros_in_known_places_may_be_skipped() -> None:
    assert not need(lambda x, mask: x * mask, X, mask=torch.tril(torch.ones(8, 16))).certain
    assert not need(lambda x, mask: x * mask, X, X > 0).certain
    assert need(lambda x, y: x * y, X, X).certain


def test_what_is_read_and_what_is_written_are_told_apart() -> None:
    found = need(lambda x: x.sum(1), X)
    assert (found.read_bytes, found.written_bytes, found.bytes) == (8 * 16 * 4, 8 * 4, 8 * 17 * 4)


@pytest.mark.parametrize(
    ("precision", "dtype", "kind"),
    [
        ("ieee", torch.float32, "fp32"),
        ("tf32", torch.float32, "tf32"),
        ("half", torch.float32, "half"),
        ("tf32", torch.bfloat16, "half"),
    ],
)
def test_matrix_products_count_under_the_arithmetic_that_is_allowed(
    precision: str, dtype: torch.dtype, kind: str
) -> None:
    found = need(lambda x: torch.relu(x @ x.T), X.to(dtype), precision=precision)
    products = 2 * 8 * 8 * 16
    other = {"fp32": 64} if kind != "fp32" else {}
    assert dict(found.flops) == {kind: products + (64 if kind == "fp32" else 0), **other}


def test_on_cuda_inputs_come_from_memory_and_outputs_may_stay_in_the_cache() -> None:
    assert floor(Need(400 * MB, 40 * MB), GPU, "cuda").bytes_ms == pytest.approx(0.1)
    assert floor(Need(400 * MB, 450 * MB), GPU, "cuda").bytes_ms == pytest.approx(0.2)
    assert floor(Need(0, 45 * MB), GPU, "cuda").bytes_ms == pytest.approx(0.005)


def test_on_cpu_the_size_decides_which_rate_counts() -> None:
    assert floor(Need(2 * MB, MB), CPU, "cpu").bytes_ms == pytest.approx(0.01)
    assert floor(Need(100 * MB, 100 * MB), CPU, "cpu").bytes_ms == pytest.approx(10)
    assert floor(Need(1000, 1000), CPU, "cpu").bytes_ms < 1e-4


def test_arithmetic_is_the_floor_where_it_takes_longer() -> None:
    least = floor(Need(MB, MB, {"tf32": 4 * 10**11, "fp32": 10**6}), GPU, "cuda")
    assert least.flops_ms == pytest.approx(1.0)
    assert least.ms == least.flops_ms


@pytest.mark.parametrize(
    ("call", "least", "target", "words"),
    [
        (Measured(1.02), SURE, "cuda", "at the limit of the memory rate (98 %"),
        (Measured(1.5), SURE, "cuda", "memory-bound at 67 %"),
        (Measured(0.5), SURE, "cpu", "faster than the measured memory rate"),
        (Measured(1.5), Floor(0.1, 1.0, 1.0, certain=False), "cuda", "compute-bound at 67 %"),
        (
            Measured(0.095, 90.0, 18.0, 3),
            Floor(0.01, 0.0, 1.0, certain=True),
            "cuda",
            "launch-bound: 3 kernels run 18 us",
        ),
        (Measured(0.095, 90.0, 88.0, 3), Floor(0.01, 0.0, 1.0, certain=True), "cuda", "bound by neither"),
        (Measured(0.006), Floor(0.0001, 0.0, 1.0, certain=True), "cuda", "latency-bound"),
        (Measured(20.0), SURE, "cpu", "bound by neither (5.0 % of the memory rate"),
    ],
)
def test_what_bounds_a_call_is_said_in_words(call: Measured, least: Floor, target: str, words: str) -> None:
    assert words in judgement(call, least, target)


def test_only_who_asks_gets_advice() -> None:
    assert "fresh pages" in judgement(Measured(20.0), SURE, "cpu", advise=True)
    assert "look for" not in judgement(Measured(20.0), SURE, "cpu")


def test_a_baseline_at_the_floor_leaves_nothing_to_win() -> None:
    said = at_limit({"compile": 1.02, "eager": 3.0}, "compile", SURE, "cuda")
    assert said.startswith("no kernel can win by 5 %: torch.compile takes 1.02e+03 us")


@pytest.mark.parametrize(
    ("medians", "least", "target"),
    [
        ({"compile": 1.04}, SURE, "cuda"),
        ({"compile": 1.0}, SURE, "cpu"),
        ({"compile": 1.0}, Floor(1.0, 0.1, 4000.0, certain=False), "cuda"),
        ({"compile": 1.0}, Floor(0.0, 1.0, 4000.0, certain=True), "cuda"),
        ({"compile": 1.0, "submission": 0.97}, SURE, "cuda"),
        ({"eager": 1.0}, SURE, "cuda"),
        ({}, SURE, "cuda"),
    ],
)
def test_where_a_win_is_not_out_of_reach_for_certain_nothing_is_said(
    medians: dict[str, float], least: Floor, target: str
) -> None:
    assert at_limit(medians, "compile", least, target) == ""


def test_a_call_below_the_floor_is_noted_only_where_the_floor_is_certain() -> None:
    assert "less than the 1e+03 us" in impossible(0.9, SURE)
    assert impossible(0.96, SURE) == ""
    assert impossible(0.5, Floor(1.0, 0.1, 4000.0, certain=False)) == ""


def test_of_two_measurements_the_higher_rates_count() -> None:
    loaded = Ceilings((MemoryRate(MB, 250, 100, 100), MemoryRate(100 * MB, 5, 5, 5)), {"fp32": 0.3}, threads=2)
    both = CPU.with_best_of(loaded)
    assert both.memory == (MemoryRate(MB, 250, 200, 300), CPU.memory[1])
    assert both.tflops == {"fp32": 0.3}


def test_ceilings_are_measured_once_and_then_read(tmp_path: Path) -> None:
    first = ceilings("cpu", tmp_path)
    assert all(entry.read > 0 and entry.write > 0 and entry.copy > 0 for entry in first.memory)
    assert first.tflops["fp32"] > 0
    assert ceilings("cpu", tmp_path) == first
    again = ceilings("cpu", tmp_path, again=True)
    assert all(new.best >= old.best for new, old in zip(again.memory, first.memory, strict=True))
    kept = json.loads((tmp_path / "ceilings.json").read_text())
    assert [Ceilings.from_json(entry) for entry in kept.values()] == [again]


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        {"memory_gb_s": [], "tflop_s": {}, "cache_bytes": 0, "threads": 1},
        {
            "memory_gb_s": [{"bytes": 1, "read": 0, "write": 1, "copy": 1}],
            "tflop_s": {},
            "cache_bytes": 0,
            "threads": 1,
        },
        {**CPU.to_json(), "tflop_s": {"fp32": "fast"}},
        {**CPU.to_json(), "tflop_s": {"fp32": float("nan")}},
        {**CPU.to_json(), "tflop_s": 3},
        {**CPU.to_json(), "memory_gb_s": [4]},
    ],
)
def test_what_somebody_wrote_into_the_cache_is_not_believed(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError, KeyError, AttributeError)):
        Ceilings.from_json(wrong)
