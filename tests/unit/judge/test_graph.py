"""The traced graph: what it says computes what the operator computes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_replay import analysis_of, replay

from cuda_agent_judge.analysis_text import analysis_text
from cuda_agent_judge.operator import Operator, clone_inputs, load
from cuda_agent_judge.trees import flatten

HEAD = "import torch, torch.nn as nn, torch.nn.functional as F\n"


def operator_from(folder: Path, forward: str, inputs: str, init: str = "") -> Operator:
    lines = [HEAD, "class Model(nn.Module):"]
    if init:
        lines += ["    def __init__(self):", "        super().__init__()", f"        {init}"]
    lines += [f"    def forward(self, {forward.split(':', 1)[0]}):"]
    lines += [f"        {line}" for line in forward.split(":", 1)[1].strip().split("\n")]
    lines += [f"def get_inputs(): return {inputs}", ""]
    (folder / "model.py").write_text("\n".join(lines))
    return load(folder)


def ops(analysis: dict[str, Any]) -> list[str]:
    return [node["op"] for node in analysis["nodes"]]


SQUARE = "[torch.randn(6, 6)]"
CASES = {
    "diag matmul": ("a, b: return torch.diag(a) @ b", "[torch.randn(5), torch.randn(5, 7)]", ""),
    "diagonal of a matrix": ("x: return torch.diag(x) * 2", SQUARE, ""),
    "broadcast": ("x, y, z: return (x + y) * z - 1.5", "[torch.randn(4, 1, 3), torch.randn(5, 1), torch.randn(3)]", ""),
    "expanded input": ("x: return x.sin() + 1", "[torch.randn(4, 1).expand(4, 8)]", ""),
    "strided input": ("x: return x.exp()", "[torch.randn(8, 8)[::2, 1:]]", ""),
    "linear": ("x: return F.relu(self.l(x))", "[torch.randn(3, 4, 6)]", "self.l = nn.Linear(6, 5)"),
    "conv and norm": (
        "x: return self.n(self.c(x))",
        "[torch.randn(2, 3, 8, 8)]",
        "self.c, self.n = nn.Conv2d(3, 4, 3, padding=1), nn.BatchNorm2d(4)",
    ),
    "attention": ("q: return F.scaled_dot_product_attention(q, q, q)", "[torch.randn(1, 2, 8, 16)]", ""),
    "einsum": ("a, b: return torch.einsum('bij,bjk->bik', a, b)", "[torch.randn(2, 3, 4), torch.randn(2, 4, 5)]", ""),
    "several outputs": ("x: return x.max(1)", SQUARE, ""),
    "chunk": ("x: a, b = x.chunk(2, -1)\nreturn a * torch.sigmoid(b)", SQUARE, ""),
    "unbind and stack": ("x: return torch.stack([t * 2 for t in x.unbind(1)])", SQUARE, ""),
    "nested result": ("x: return {'a': [x + 1, None], 'b': (x.sum(), 3)}", SQUARE, ""),
    "dict input": ("d: return d['p'] - d['q']['r']", "[{'p': torch.randn(3), 'q': {'r': torch.randn(3)}}]", ""),
    "keyword inputs": ("x, scale: return x * scale", "{'x': torch.randn(3), 'scale': 4.0}", ""),
    "constant made in forward": ("x: return x * torch.tensor([1.0, float('inf'), 2.0])", "[torch.randn(2, 3)]", ""),
    "captured constant": ("x: return x * self.t", "[torch.randn(2, 3)]", "self.t = torch.arange(3.0)"),
    "dtype and casts": ("x: return x.to(torch.float64).sum(0, dtype=torch.float32).half()", SQUARE, ""),
    "masks": ("x: return x.masked_fill(x > 0, float('-inf')).softmax(-1)", SQUARE, ""),
    "where and integers": ("x, i: return torch.where(i % 2 == 0, x, -x)", "[torch.randn(9), torch.arange(9)]", ""),
    "gather": ("x, i: return F.embedding(i, x) + x[i]", "[torch.randn(9, 4), torch.randint(0, 9, (5,))]", ""),
    "slices": ("x: return x[1:, ::2] @ x[:3, 2:]", SQUARE, ""),
    "transposed": ("x: return x.t().contiguous().view(-1).flip(0)", SQUARE, ""),
    # mutation
    "in place on the input": ("x: return x.mul_(2)", SQUARE, ""),
    "in place, then again": ("x: y = x + 1\ny.mul_(3)\ny.add_(x)\nreturn y", SQUARE, ""),
    "base written, view used": ("x: y = x + 1\nv = y.view(-1)\ny.mul_(3)\nreturn v", SQUARE, ""),
    "view written, base used": ("x: y = x + 1\ny.view(-1).mul_(3)\nreturn y", SQUARE, ""),
    "slice written, base used": ("x: y = x + 1\ny[1:3, ::2] *= 3\nreturn y", SQUARE, ""),
    "row set": ("x: y = x.clone()\ny[0] = 1\ny[:, 2] += 5\nreturn y", SQUARE, ""),
    "mask set": ("x: y = x.clone()\ny[y > 0] = 0\nreturn y", SQUARE, ""),
    "view of a view written": ("x: y = x + 1\ny.t()[2].unsqueeze(0)[:, 1:4].neg_()\nreturn y * 2", SQUARE, ""),
    "diagonal written": ("x: y = x + 1\ny.diagonal().fill_(7)\nreturn y", SQUARE, ""),
    "permuted written": ("x: y = x + 1\ny.permute(1, 0)[0].zero_()\nreturn y", SQUARE, ""),
    "as_strided written": ("x: y = x + 1\ny.as_strided([3], [7], 1).zero_()\nreturn y", SQUARE, ""),
    "sibling chunk untouched": ("x: y = x + 1\na, b = y.chunk(2)\na.mul_(0)\nreturn b - a, y", SQUARE, ""),
    "both siblings written": ("x: y = x + 1\na, b = y.chunk(2, 1)\na.mul_(0)\nb.copy_(a + 1)\nreturn y", SQUARE, ""),
    "input view written": ("x: x[0].add_(1)\nreturn x.sum(0)", SQUARE, ""),
    "transposed in place": ("x: y = x + torch.arange(6.0)\ny.t_()\nreturn y.mul_(2) + x", SQUARE, ""),
    "out argument": ("x: y = torch.zeros_like(x)\ntorch.mul(x, 3, out=y)\nreturn y", SQUARE, ""),
    "buffer written": (
        "x: self.b.add_(1)\nself.b.sub_(1)\nreturn x + self.b",
        SQUARE,
        "self.register_buffer('b', torch.ones(6))",
    ),
}


@pytest.mark.parametrize(("forward", "inputs", "init"), CASES.values(), ids=CASES.keys())
def test_the_graph_computes_what_the_operator_computes(tmp_path: Path, forward: str, inputs: str, init: str) -> None:
    operator = operator_from(tmp_path, forward, inputs, init)
    analysis = json.loads(json.dumps(analysis_of(operator), allow_nan=False))
    model = operator.make_model("cpu")
    # Other inputs than those that were traced.
    given = operator.get_inputs(9, "cpu")
    expected = flatten(operator.run(operator.make_model("cpu"), clone_inputs(given)))[0]
    computed = replay(analysis, given, model)
    assert not analysis["data_dependent"]
    assert not analysis["notes"]
    for want, got in zip(expected, computed, strict=True):
        if isinstance(want, torch.Tensor):
            torch.testing.assert_close(got, want, equal_nan=True)
        else:
            assert got == want


def test_a_diagonal_product_reads_only_its_operands(tmp_path: Path) -> None:
    operator = operator_from(tmp_path, "a, b: return torch.diag(a) @ b", "[torch.randn(64), torch.randn(64, 32)]")
    analysis = analysis_of(operator)
    embed, product = analysis["nodes"]
    assert ops(analysis) == ["aten.diag_embed.default", "aten.mm.default"]
    assert embed["args"] == [{"ref": "i0"}, 0, -2, -1]
    assert product["args"] == [{"ref": "n0"}, {"ref": "i1"}]
    assert product["flops"] == 2 * 64 * 64 * 32
    assert analysis["totals"]["bytes_required"] == 4 * (64 + 64 * 32 + 64 * 32)
    assert analysis["forward"] == ["a", "b"]


def test_defaults_are_filled_in_at_their_positions(tmp_path: Path) -> None:
    analysis = analysis_of(operator_from(tmp_path, "x: return torch.add(x, x).softmax(0)", "[torch.randn(4)]"))
    add, softmax = analysis["nodes"]
    assert (add["args"], add["kwargs"]) == ([{"ref": "i0"}, {"ref": "i0"}], {"alpha": 1})
    assert softmax["args"] == [{"ref": "n0"}, 0, False]


def test_only_the_bytes_that_are_touched_are_required(tmp_path: Path) -> None:
    forward = "x, w, unused: return x[:, :2] * torch.diagonal(w)"
    inputs = "[torch.randn(8, 16), torch.randn(2, 2), torch.randn(100)]"
    analysis = analysis_of(operator_from(tmp_path, forward, inputs))
    assert analysis["totals"]["bytes_required"] == 4 * (16 + 2 + 16)
    assert [node["view"] for node in analysis["nodes"]] == [True] * (len(analysis["nodes"]) - 1) + [False]


def test_an_embedding_reads_its_rows_and_not_its_table(tmp_path: Path) -> None:
    analysis = analysis_of(
        operator_from(tmp_path, "x, i: return F.embedding(i, x)", "[torch.randn(999, 8), torch.arange(3)]")
    )
    assert analysis["totals"]["bytes_required"] == 3 * 8 * 4 + 3 * 8 + 3 * 8 * 4


def test_an_expanded_input_is_read_once(tmp_path: Path) -> None:
    analysis = analysis_of(operator_from(tmp_path, "x: return x.sin()", "[torch.randn(4, 1).expand(4, 100)]"))
    assert analysis["inputs"][0]["strides"] == [1, 0]
    assert analysis["totals"]["bytes_required"] == 4 * 4 + 4 * 400


def test_a_mutation_names_what_it_changed(tmp_path: Path) -> None:
    analysis = analysis_of(operator_from(tmp_path, "x: y = x + 1\ny[0].mul_(2)\nreturn y", "[torch.randn(3, 4)]"))
    by_op = {node["op"]: node for node in analysis["nodes"]}
    assert by_op["aten.mul_.Tensor"]["mutates"] == ["n1", "n0"]
    assert by_op["aten.select_scatter.default"]["implied"]
    assert by_op["aten.select_scatter.default"]["bytes"] == 0
    assert analysis["outputs"] == [{"path": [], "ref": by_op["aten.select_scatter.default"]["id"]}]


@pytest.mark.parametrize(
    "forward",
    [
        "x: return x * x.sum().item()",
        "x: return x + 1 if x.sum() > 0 else x - 1",
        "x: return x * x.numpy().sum().item()",
    ],
)
def test_values_read_by_python_are_told(tmp_path: Path, forward: str) -> None:
    assert analysis_of(operator_from(tmp_path, forward, "[torch.rand(4)]"))["data_dependent"]


def test_inputs_and_parameters_are_described(tmp_path: Path) -> None:
    init = "self.w = nn.Parameter(torch.zeros(2)); self.register_buffer('b', torch.zeros(3, dtype=torch.int64))"
    operator = operator_from(tmp_path, "x, k, d: return x * self.w", "[torch.randn(2, 2).t(), 3, {'m': None}]", init)
    analysis = analysis_of(operator)
    first, second, third = analysis["inputs"]
    assert first == {
        "id": "i0", "path": [0], "kind": "tensor", "shape": [2, 2], "strides": [1, 2], "dtype": "float32", "bytes": 16,
    }  # fmt: skip
    assert second == {"id": "i1", "path": [1], "kind": "value", "value": 3}
    assert third == {"id": "i2", "path": [2, "m"], "kind": "value", "value": None}
    assert [(p["id"], p["name"], p["kind"]) for p in analysis["parameters"]] == [
        ("p0", "w", "parameter"),
        ("p1", "b", "buffer"),
    ]


def test_a_large_constant_has_no_values(tmp_path: Path) -> None:
    analysis = analysis_of(
        operator_from(tmp_path, "x: return x + self.t", "[torch.randn(65)]", "self.t = torch.ones(65)")
    )
    assert analysis["constants"][0]["values"] is None


def test_the_text_names_inputs_operations_and_totals(tmp_path: Path) -> None:
    operator = operator_from(tmp_path, "a, b: return torch.diag(a) @ b, 3", "[torch.randn(2000), torch.randn(2000, 9)]")
    assert analysis_text(analysis_of(operator)).splitlines() == [
        "input i0 a: float32[2000] 8 kB",
        "input i1 b: float32[2000, 9] 72 kB",
        "n0 float32[2000, 2000] = aten.diag_embed.default(i0, 0, -2, -1)  4 MFLOP 16 MB",
        "n1 float32[2000, 9] = aten.mm.default(n0, i1)  72 MFLOP 16.1 MB",
        "returns 0: n1, 1: 3",
        "totals: 76 MFLOP; 152 kB must be read and written at least, the operations one by one move 32.2 MB",
    ]


@pytest.mark.parametrize(("forward", "inputs", "init"), CASES.values(), ids=CASES.keys())
def test_every_analysis_has_a_text(tmp_path: Path, forward: str, inputs: str, init: str) -> None:
    analysis = analysis_of(operator_from(tmp_path, forward, inputs, init))
    assert len(analysis_text(analysis).splitlines()) >= len(analysis["nodes"]) + len(analysis["inputs"]) + 2
