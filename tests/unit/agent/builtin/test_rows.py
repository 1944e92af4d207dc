"""What becomes one kernel around a reduction, what a sum over a product turns into, and what is refused."""

from typing import Any

import pytest
from tests.unit.agent.builtin.graphs import Json, analysis, node, ref, tensor

from cuda_agent.llm.builtin.design import Design
from cuda_agent.llm.builtin.graph import Unsupported, read_graph
from cuda_agent.llm.builtin.recipes import choose
from cuda_agent.llm.builtin.rows import Rows

ROWS, DEPTH, COLUMNS = 60, 70, 80


def softmax(shape: list[int], dim: int, target: str = "cpu") -> Json:
    return analysis([tensor("i0", shape)], [node(0, "aten._softmax.default", [ref("i0"), dim, False], shape)], target)


def linear_then(*steps: tuple[str, list[Any], list[int]]) -> Json:
    """x @ w, then operations on it."""
    nodes = [node(0, "aten.mm.default", [ref("i0"), ref("i1")], [ROWS, COLUMNS])]
    for number, (op, more, shape) in enumerate(steps, start=1):
        nodes.append(node(number, f"aten.{op}", [ref(f"n{number - 1}"), *more], shape))
    return analysis([tensor("i0", [ROWS, DEPTH]), tensor("i1", [DEPTH, COLUMNS])], nodes)


def design_of(graph: Json) -> Design:
    return choose(read_graph(graph))


def only_rows(design: Design) -> Rows:
    (kernel,) = design.kernels
    assert isinstance(kernel, Rows)
    return kernel


@pytest.mark.parametrize(("dim", "across"), [(2, False), (1, True), (0, True)])
def test_a_softmax_is_one_kernel_that_reads_memory_contiguously(dim: int, across: bool) -> None:
    kernel = only_rows(design_of(softmax([5, 70, 90], dim)))
    assert [(len(one.sums), len(one.writes)) for one in kernel.passes] == [(1, 0), (1, 0), (0, 1)]
    assert kernel.across == across
    assert {buffer.name for buffer in kernel.outputs} == {"out0"}


def test_one_long_row_is_cut_into_parts_and_no_float_is_added_atomically() -> None:
    total = [node(0, "aten.sum.default", [ref("i0")], [])]
    cuda = design_of(analysis([tensor("i0", [1000, 4096])], total, "cuda"))
    for variant in cuda.variants().values():
        files = cuda.files(variant)
        text = files[cuda.kernel_path]
        assert text.count("__global__") == 2
        assert "atomic" not in text
        assert files["model_new.py"].count("torch.empty_strided") == 2, "the result, and the parts' sums"
    cpu = design_of(analysis([tensor("i0", [1000, 4096])], total))
    assert "pragma omp parallel for" in cpu.kernel(cpu.variants()["cached"])


def test_numbers_used_crosswise_go_through_memory() -> None:
    design = design_of(
        analysis(
            [tensor("i0", [40, 40])],
            [
                node(0, "aten.sum.dim_IntList", [ref("i0"), [1], True], [40, 1]),
                node(1, "aten.transpose.int", [ref("n0"), 0, 1], [1, 40]),
                node(2, "aten.div.Tensor", [ref("i0"), ref("n1")], [40, 40]),
                node(3, "aten.add.Tensor", [ref("n2"), ref("n0"), 1], [40, 40]),
            ],
        )
    )
    assert len(design.kernels) == 2


LINEAR = [
    [("sum.dim_IntList", [[1], False], [ROWS])],
    [("mean.dim", [[0], True], [1, COLUMNS])],
    [("div.Tensor", [2.0], [ROWS, COLUMNS]), ("neg.default", [], [ROWS, COLUMNS]), ("sum.default", [], [])],
    [("view.default", [[6, 10, COLUMNS]], [6, 10, COLUMNS]), ("sum.dim_IntList", [[-1], False], [6, 10])],
]


@pytest.mark.parametrize("steps", LINEAR, ids=lambda steps: "-".join(step[0].split(".")[0] for step in steps))
def test_a_sum_over_a_product_never_makes_the_product(steps: list[Any]) -> None:
    design = design_of(linear_then(*steps))
    walked = [
        one.width * kernel.count for kernel in design.kernels if isinstance(kernel, Rows) for one in kernel.passes
    ]
    assert max(walked) <= max(ROWS, COLUMNS) * DEPTH
    assert max(buffer.spec.numel for kernel in design.kernels for buffer in kernel.outputs) < ROWS * COLUMNS


REFUSED = [
    ("sum.dim_IntList", [[1], False], "float32", "reduction over nothing", [5, 0]),
    ("linalg_vector_norm.default", [3, [1], False], "float32", "order 3", [5, 4]),
    ("var.correction", [[1]], "float32", "too few", [5, 1]),
    ("amax.default", [[1], False], "bool", "truth values", [5, 4]),
    ("avg_pool2d.default", [[2, 2], [2, 2], [1, 1], False, True, None], "float32", "padding", [5, 4, 4]),
    ("max_pool2d_with_indices.default", [[2, 2], [2, 2], [0, 0], [2, 2]], "float32", "dilation", [5, 4, 4]),
]


@pytest.mark.parametrize(("op", "more", "dtype", "reason", "shape"), REFUSED)
def test_a_case_that_is_not_covered_is_refused_with_the_reason(
    op: str, more: list[Any], dtype: str, reason: str, shape: list[int]
) -> None:
    graph = analysis([tensor("i0", shape, dtype)], [node(0, f"aten.{op}", [ref("i0"), *more], [5], dtype)])
    with pytest.raises(Unsupported, match=reason):
        design_of(graph)


def test_a_dear_expression_is_computed_once_where_a_variant_keeps_it() -> None:
    design = design_of(softmax([64, 1000], 1))
    variants = design.variants()
    kept, again = (design.kernel(variants[name]) for name in ("cached", "recomputed"))
    assert kept.count("= op_exp(") == 1
    assert again.count("= op_exp(") == 2
