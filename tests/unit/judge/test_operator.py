"""Loading, constructing, feeding and running operators, and what is said of faulty ones."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from cuda_agent_judge.analyze import analyze
from cuda_agent_judge.operator import clone_inputs, load
from cuda_agent_judge.screen import Screening, close, flip_signs, screen

HEAD = "import torch, torch.nn as nn\n"
RELU = "class Model(nn.Module):\n    def forward(self, x): return x.relu()\n"
INPUTS = "def get_inputs(): return [torch.randn(8, 8)]\n"


def model(forward: str, *, arguments: str = "x", init: str = "pass") -> str:
    return (
        f"class Model(nn.Module):\n    def __init__(self):\n        super().__init__(); {init}\n"
        f"    def forward(self, {arguments}): {forward}\n"
    )


@pytest.fixture(autouse=True)
def _forget_modules() -> Iterator[None]:
    """Operators of one process share the name `model`; what one imported is not for the next."""
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if getattr(sys.modules[name], "__file__", None) and "pytest-" in str(sys.modules[name].__file__):
            del sys.modules[name]


def write(folder: Path, source: str) -> Path:
    (folder / "model.py").write_text(source)
    return folder


WORKING = {
    "a dict in a list": (model("return d['a'] + d['b']", arguments="d"), "[{'a': torch.ones(3), 'b': torch.randn(3)}]"),
    "an int and None": (
        model("return x.roll(k, 0) if mask is None else x * mask", arguments="x, k, mask=None"),
        "[torch.randn(6, 2), 3, None]",
    ),
    "no inputs": (model("return self.w @ self.w", arguments="", init="self.w = nn.Parameter(torch.eye(4))"), "[]"),
    "keyword inputs": (model("return x * k", arguments="*, x, k"), "{'x': torch.randn(4), 'k': 2}"),
    "one tensor": (model("return x.exp()"), "torch.randn(4)"),
    "a tuple": (model("return x - y", arguments="x, y"), "torch.randn(4), torch.randn(4)"),
    "nested results": (model("return self.l(x)", init="self.l = nn.LSTM(4, 4)"), "[torch.randn(3, 2, 4)]"),
    "integers and booleans": (model("return x.argmax(-1), x > 0"), "[torch.randn(4, 9)]"),
    "a scalar": (model("return torch.mean(torch.clamp(1 - x, min=0))"), "[torch.randn(64)]"),
    "small values": (model("return torch.softmax(x, 1)"), "[torch.randn(2, 9999)]"),
    "half": (model("return x @ x"), "[torch.randn(8, 8).half()]"),
    "bfloat16 parameters": (
        model("return self.l(x)", init="self.l = nn.Linear(8, 8).to(torch.bfloat16)"),
        "[torch.randn(2, 8, dtype=torch.bfloat16)]",
    ),
    "transposed input": (model("return x.relu()"), "[torch.randn(4, 8).t()]"),
    "a branch on values": (model("return x.relu() if x.sum().item() > 0 else x.exp()"), "[torch.randn(4, 4)]"),
    "batch norm": (model("return self.b(x)", init="self.b = nn.BatchNorm1d(4)"), "[torch.randn(8, 4) * 3 + 1]"),
}


@pytest.mark.parametrize(("source", "inputs"), WORKING.values(), ids=WORKING.keys())
def test_awkward_operators_are_analysed(tmp_path: Path, source: str, inputs: str) -> None:
    report = analyze(write(tmp_path, HEAD + source + f"def get_inputs(): return {inputs}\n"), "cpu")
    assert (report.status, report.reason) == ("measured", "")
    assert report.analysis is not None
    assert report.analysis["nodes"]
    assert report.environment["compiler"].startswith("g++ ")
    assert report.environment["device"].endswith(report.analysis["device"]["simd"])
    assert '"nodes"' in report.to_json()


FAULTY = {
    "no file": (None, "model.py cannot be read"),
    "syntax": ("def f(:\n", "model.py line 1 does not import (SyntaxError"),
    "no model": (HEAD + INPUTS, "class Model(torch.nn.Module)"),
    "no module": (HEAD + "class Model: pass\n" + INPUTS, "class Model(torch.nn.Module)"),
    "no inputs": (HEAD + RELU, "get_inputs()"),
    "sibling": ("from helper_next_door import f\n" + HEAD + RELU + INPUTS, "put helper_next_door.py into the folder"),
    "exits": (HEAD + "raise SystemExit(3)\n", "model.py line 2 does not import (SystemExit: 3)"),
    "constructor": (HEAD + RELU + INPUTS + "def get_init_inputs(): return [1, 2]\n", "the constructor of Model"),
    "forward": (HEAD + model("return x @ x.unsqueeze(0)[0, :3]") + INPUTS, "forward in model.py line 5 failed"),
    "result": (HEAD + model("return x.sum().item()") + INPUTS, "returns no tensor (it returns float)"),
    "get_inputs": (HEAD + RELU + "def get_inputs(): return [1 / 0]\n", "get_inputs() in model.py line 4 failed"),
    "cuda": (
        HEAD + RELU + "def get_inputs(): return [torch.randn(2, device='cuda')]\n",
        "asks for device 'cuda', but the target is cpu",
    ),
    "random": (HEAD + model("return x + torch.rand_like(x)") + INPUTS, "different results for the same inputs"),
    "counting": (HEAD + model("self.n += 1; return x * self.n", init="self.n = 0") + INPUTS, "kept between calls"),
}


@pytest.mark.parametrize(("source", "said"), FAULTY.values(), ids=FAULTY.keys())
def test_a_faulty_operator_gets_one_sentence(tmp_path: Path, source: str | None, said: str) -> None:
    if source is not None:
        write(tmp_path, source)
    report = analyze(tmp_path, "cpu")
    assert report.status == "operator_error"
    assert said in report.reason
    assert "model.py" in report.reason
    assert "\n" not in report.reason


@pytest.mark.parametrize(
    ("returned", "expected"),
    [
        ("[3, 8]", ((3, 8), True)),
        ("[[3, 8], {'bias': False}]", ((3, 8), False)),
        ("[(3, 8), {'bias': False}]", ((3, 8), False)),
        ("{'a': 3, 'b': 8}", ((3, 8), True)),
        ("(3, 8)", ((3, 8), True)),
    ],
)
def test_init_inputs(tmp_path: Path, returned: str, expected: object) -> None:
    source = (
        HEAD
        + "class Model(nn.Module):\n    def __init__(self, a, b, bias=True):\n        super().__init__(); self.got = "
        "((a, b), bias)\n    def forward(self, x): return x\n" + INPUTS + f"def get_init_inputs(): return {returned}\n"
    )
    assert load(write(tmp_path, source)).make_model("cpu").got == expected


def test_a_constructor_may_take_a_list_and_a_dict(tmp_path: Path) -> None:
    source = (
        HEAD
        + "class Model(nn.Module):\n    def __init__(self, sizes, options):\n        super().__init__(); self.got = "
        "(sizes, options)\n" + INPUTS + "def get_init_inputs(): return [[3, 8, 4], {'depth': 2}]\n"
    )
    assert load(write(tmp_path, source)).make_model("cpu").got == ([3, 8, 4], {"depth": 2})


def test_bom_and_crlf(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_bytes(b"\xef\xbb\xbf" + (HEAD + RELU + INPUTS).replace("\n", "\r\n").encode())
    assert analyze(tmp_path, "cpu").status == "measured"


def test_a_sibling_is_found_also_from_inside_forward(tmp_path: Path) -> None:
    (tmp_path / "beside_at_once.py").write_text("def f(x): return x + 1\n")
    (tmp_path / "beside_later.py").write_text("def g(x): return x * 2\n")
    source = (
        "from beside_at_once import f\n" + HEAD + "class Model(nn.Module):\n    def forward(self, x):\n"
        "        from beside_later import g\n        return g(f(x))\n" + INPUTS
    )
    assert analyze(write(tmp_path, source), "cpu").status == "measured"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside_at_once.py", "beside_later.py", "model.py"]


def test_the_main_guard_does_not_run(tmp_path: Path) -> None:
    source = HEAD + RELU + INPUTS + "if __name__ == '__main__': raise RuntimeError('run')\n"
    assert analyze(write(tmp_path, source), "cpu").status == "measured"


def test_what_the_operator_prints_stays_off_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = "print('import')\n" + HEAD + model("print('forward') or x", init="print('init')") + INPUTS
    source = source.replace("forward(self, x): print", "forward(self, x): return print")
    assert analyze(write(tmp_path, source), "cpu").status == "measured"
    captured = capsys.readouterr()
    assert captured.out == ""
    assert {"import", "init", "forward"} <= set(captured.err.split())


def test_the_same_seed_draws_the_same(tmp_path: Path) -> None:
    source = "import random\n" + HEAD + model("return self.l(x)", init="self.l = nn.Linear(4, 4)")
    operator = load(write(tmp_path, source + "def get_inputs(): return [torch.randn(4), random.random()]\n"))
    drawn: list[Any] = [operator.get_inputs(seed, "cpu") for seed in (1, 1, 2)]
    (first, number), (again, same), (other, _) = drawn
    assert torch.equal(first, again)
    assert number == same
    assert not torch.equal(first, other)
    weights = [operator.make_model("cpu", seed).state_dict()["l.weight"] for seed in (5, 5, 6)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


def test_models_are_in_eval_mode(tmp_path: Path) -> None:
    operator = load(write(tmp_path, HEAD + model("return self.d(x)", init="self.d = nn.Dropout(0.9)") + INPUTS))
    instance = operator.make_model("cpu")
    inputs = operator.get_inputs(1, "cpu")
    assert isinstance(inputs, list)
    assert torch.equal(operator.run(instance, inputs), inputs[0])


def test_clones_keep_strides_and_share_nothing() -> None:
    base = torch.randn(4, 6)
    given: dict[str, Any] = {"t": base.t(), "gaps": base[::2, 1:3], "stretched": base[:, :1].expand(4, 9), "n": 3}
    cloned = clone_inputs(given)
    base.zero_()
    assert cloned["n"] == 3
    for name in ("t", "gaps", "stretched"):
        assert cloned[name].stride() == given[name].stride()
        assert cloned[name].abs().sum() > 0


def screened(folder: Path, source: str, inputs: str = "[torch.randn(64, 8)]") -> Screening:
    return screen(load(write(folder, HEAD + source + f"def get_inputs(): return {inputs}\n")), "cpu")


@pytest.mark.parametrize(
    ("source", "inputs"),
    [
        (model("return torch.softmax(x.mean(1, keepdim=True), 1)"), "[torch.randn(64, 8)]"),
        (model("return torch.zeros_like(x)"), "[torch.randn(64, 8)]"),
        (model("return (x - x).relu() + 3"), "[torch.randn(64, 8)]"),
        (model("return x.clamp(-1, 1).sum(0).isnan()"), "[torch.randn(64, 8)]"),
        (model("return torch.log(x)"), "[-torch.rand(64, 8) - 1]"),
        (model("return self.d(x)", init="self.d = nn.Dropout()"), "[torch.randn(64, 8)]"),
    ],
    ids=["softmax of one", "zeros", "constant", "booleans", "only NaN", "identity"],
)
def test_a_degenerate_result_is_told(tmp_path: Path, source: str, inputs: str) -> None:
    screening = screened(tmp_path, source, inputs)
    assert screening.fault is None
    assert screening.degenerate is not None


@pytest.mark.parametrize(
    ("source", "inputs"),
    [
        (model("return torch.softmax(x, 1)"), "[torch.randn(8, 65536)]"),
        (model("return torch.mean(torch.clamp(1 - x * x, min=0))"), "[torch.randn(512, 64)]"),
        (model("return x * 1e-12"), "[torch.randn(64, 8)]"),
        (model("return torch.log(x)"), "[torch.randn(64, 8)]"),
        (model("return x > 0"), "[torch.randn(64, 8)]"),
    ],
    ids=["small values", "a mean", "tiny values", "some NaN", "booleans"],
)
def test_a_result_that_depends_on_the_inputs_is_not_degenerate(tmp_path: Path, source: str, inputs: str) -> None:
    screening = screened(tmp_path, source, inputs)
    assert (screening.fault, screening.degenerate) == (None, None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.complex64])
@pytest.mark.parametrize("size", [1e-30, 1.0, 1e30])
def test_closeness_is_relative_to_the_reference(dtype: torch.dtype, size: float) -> None:
    if dtype == torch.float16:
        size = min(max(size, 1e-3), 1e3)
    reference = torch.linspace(-2, 2, 1000, dtype=torch.float64).mul(size).to(dtype)
    assert close(reference.clone(), reference)
    assert close(reference * (1 + 1e-5), reference)
    assert not close(reference * 1.05, reference)
    assert not close(torch.zeros_like(reference), reference)
    nan = reference.clone()
    nan[3] = float("nan")
    assert close(nan.clone(), nan)
    assert not close(nan, reference)


def test_relu_of_positive_numbers_needs_signs(tmp_path: Path) -> None:
    screening = screened(tmp_path, RELU, "[torch.rand(64, 8)]")
    assert screening.degenerate is None
    assert any("signs tell them apart" in note for note in screening.notes)
    assert screened(tmp_path, RELU, "[torch.randn(64, 8)]").notes == ()


def test_a_mean_that_is_always_the_same_gets_harder_inputs(tmp_path: Path) -> None:
    screening = screened(tmp_path, model("return x.exp().mean()"), "[torch.rand(512, 512) * 0.1]")
    assert screening.degenerate is None
    assert any("another scale in each call" in note for note in screening.notes)


def test_flipped_signs_keep_the_magnitude() -> None:
    given: list[Any] = [torch.rand(100) + 1, 3, torch.arange(4)]
    flipped = flip_signs(given, 7)
    assert torch.equal(flipped[0].abs(), given[0])
    assert 0 < (flipped[0] < 0).sum() < 100
    assert flipped[1] == 3
    assert torch.equal(flipped[2], given[2])


def test_a_reference_that_writes_into_its_inputs_is_noted(tmp_path: Path) -> None:
    screening = screened(tmp_path, model("return x.mul_(2)"))
    assert screening.degenerate is None
    assert any("writes into its inputs" in note for note in screening.notes)


def test_nan_is_noted(tmp_path: Path) -> None:
    assert any("NaN" in note for note in screened(tmp_path, model("return torch.log(x)")).notes)


def test_inputs_that_ignore_the_seed_are_noted(tmp_path: Path) -> None:
    screening = screened(tmp_path, model("return x + 1"), "[torch.arange(8.0)]")
    assert screening.degenerate is None
    assert any("whatever the seed" in note for note in screening.notes)
