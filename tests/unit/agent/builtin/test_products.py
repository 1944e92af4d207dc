"""Which products the library makes, what of the operator it takes along, and where the rest happens."""

from typing import Any

import pytest
from tests.unit.agent.builtin.graphs import Json, analysis, node, ref, tensor

from cuda_agent.llm.builtin.blocked import Blocked
from cuda_agent.llm.builtin.design import Design
from cuda_agent.llm.builtin.graph import Unsupported, read_graph
from cuda_agent.llm.builtin.nest import Nest
from cuda_agent.llm.builtin.recipes import choose
from cuda_agent.llm.builtin.rows import Rows
from cuda_agent.llm.builtin.stage import Product

ROWS, DEPTH, COLUMNS = 60, 70, 80
SHAPE = [ROWS, COLUMNS]
BIAS, SQUARE = tensor("i2", [COLUMNS]), tensor("i2", SHAPE)
Steps = list[tuple[str, list[Any], list[int]]]


def product_then(steps: Steps, *more: Json, target: str = "cpu", dtype: str = "float32") -> Json:
    """x @ w, then operations on it."""
    nodes = [node(0, "aten.mm.default", [ref("i0"), ref("i1")], SHAPE, dtype)]
    for number, (op, arguments, shape) in enumerate(steps, start=1):
        nodes.append(node(number, f"aten.{op}", [ref(f"n{number - 1}"), *arguments], shape, dtype))
    inputs = [tensor("i0", [ROWS, DEPTH], dtype), tensor("i1", [DEPTH, COLUMNS], dtype), *more]
    return analysis(inputs, nodes, target)


def design_of(graph: Json, precision: str = "ieee") -> Design:
    return choose(read_graph(graph, {"precision": precision}))


def product_of(design: Design) -> Product:
    first = design.kernels[0]
    assert isinstance(first, Product)
    return first


RELU: Steps = [("relu.default", [], SHAPE)]
NOT_LINEAR: list[tuple[Steps, type]] = [
    ([*RELU, ("sum.default", [], [])], Rows),
    ([("amax.default", [[1], False], [ROWS])], Rows),
    ([("pow.Tensor_Scalar", [2], SHAPE), ("sum.default", [], [])], Rows),
    ([("view.default", [[ROWS, 2, 40]], [ROWS, 2, 40]), ("sum.dim_IntList", [[2], False], [ROWS, 2])], Rows),
    (RELU, Nest),
]


@pytest.mark.parametrize(("steps", "behind"), NOT_LINEAR)
def test_what_is_not_linear_in_a_product_follows_it_as_one_kernel(steps: Steps, behind: type) -> None:
    product, after = design_of(product_then(steps)).kernels
    assert isinstance(product, Product)
    assert isinstance(after, behind)
    assert product.outputs[0] in (*after.reads, *after.outputs)


IN_PLACE: list[Steps] = [
    RELU,
    [("_softmax.default", [1, False], SHAPE)],
    [("add.Tensor", [ref("i2"), 1], SHAPE), ("gelu.default", [], SHAPE)],
    [("mul.Tensor", [2.0], SHAPE)],
]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("steps", IN_PLACE, ids=lambda steps: steps[-1][0])
def test_what_is_behind_a_product_of_which_nobody_else_reads_happens_in_its_place(steps: Steps, target: str) -> None:
    design = design_of(product_then(steps, SQUARE, target=target))
    assert {buffer.name for kernel in design.kernels for buffer in kernel.outputs} == {"out0"}


def test_a_product_times_a_number_is_the_library_s_work_alone() -> None:
    design = design_of(product_then([("mul.Tensor", [0.5], SHAPE), ("neg.default", [], SHAPE)]))
    assert design.kernels == (product_of(design),)
    assert product_of(design).alpha == -0.5


def test_a_product_that_is_also_read_crosswise_stays_where_it_is() -> None:
    square = [COLUMNS, COLUMNS]
    nodes = [
        node(0, "aten.mm.default", [ref("i0"), ref("i0")], square),
        node(1, "aten.t.default", [ref("n0")], square),
        node(2, "aten.add.Tensor", [ref("n0"), ref("n1"), 1], square),
    ]
    design = design_of(analysis([tensor("i0", square)], nodes))
    names = [buffer.name for kernel in design.kernels for buffer in kernel.outputs]
    assert len(names) == len(set(names)) == 2


def test_a_transposed_operand_is_a_flag_and_a_scattered_one_is_written_out() -> None:
    turned = analysis(
        [tensor("i0", [ROWS, DEPTH]), tensor("i1", [COLUMNS, DEPTH]), tensor("i2", [DEPTH, 2 * COLUMNS])],
        [
            node(0, "aten.t.default", [ref("i1")], [DEPTH, COLUMNS]),
            node(1, "aten.mm.default", [ref("i0"), ref("n0")], SHAPE),
            node(2, "aten.slice.Tensor", [ref("i2"), 1, 0, 2 * COLUMNS, 2], [DEPTH, COLUMNS]),
            node(3, "aten.mm.default", [ref("i0"), ref("n2")], SHAPE),
            node(4, "aten.mul.Tensor", [ref("n1"), ref("n3")], SHAPE),
        ],
    )
    first, copied, second, _ = design_of(turned).kernels
    assert isinstance(first, Product)
    assert (first.left.flipped, first.right.flipped) == (False, True)
    assert isinstance(copied, Nest)
    assert isinstance(second, Product)
    assert second.right.buffer == copied.outputs[0]


EPILOGUES: list[tuple[Steps, str, int]] = [
    ([("add.Tensor", [ref("i2"), 1], SHAPE), *RELU], "RELU_BIAS", 1),
    ([("add.Tensor", [ref("i2"), 1], SHAPE)], "BIAS", 1),
    (RELU, "RELU", 1),
    ([("gelu.default", ["tanh"], SHAPE)], "GELU", 1),
    ([("gelu.default", ["none"], SHAPE)], "DEFAULT", 2),
    ([*RELU, ("add.Tensor", [ref("i2"), 1], SHAPE)], "RELU", 2),
    ([("add.Tensor", [ref("i2"), 1], SHAPE), ("_softmax.default", [1, False], SHAPE)], "BIAS", 2),
    ([("mul.Tensor", [ref("i2")], SHAPE), *RELU], "DEFAULT", 2),
]


@pytest.mark.parametrize(("steps", "epilogue", "kernels"), EPILOGUES)
def test_the_library_s_own_epilogue_takes_what_it_can_and_no_more(steps: Steps, epilogue: str, kernels: int) -> None:
    design = design_of(product_then(steps, BIAS, target="cuda"))
    variant = next(iter(design.variants().values()))
    assert f"CUBLASLT_EPILOGUE_{epilogue}, " in design.kernel(variant)
    assert len(design.kernels_of(variant)) == kernels
    assert ("epilogue" in design.variants()) == (epilogue != "DEFAULT")


def test_a_residual_that_differs_from_row_to_row_is_no_bias() -> None:
    design = design_of(product_then([("add.Tensor", [ref("i2"), 1], SHAPE)], SQUARE, target="cuda"))
    assert all("EPILOGUE_DEFAULT" in design.kernel(variant) for variant in design.variants().values())


@pytest.mark.parametrize(
    ("dtype", "precision", "compute"),
    [
        ("float32", "ieee", "CUBLAS_COMPUTE_32F,"),
        ("float32", "tf32", "CUBLAS_COMPUTE_32F_FAST_TF32,"),
        ("bfloat16", "ieee", "CUBLAS_COMPUTE_32F,"),
        ("float64", "tf32", "CUBLAS_COMPUTE_64F,"),
    ],
)
def test_the_precision_policy_says_in_which_arithmetic_is_multiplied(dtype: str, precision: str, compute: str) -> None:
    design = design_of(product_then(RELU, target="cuda", dtype=dtype), precision)
    assert all(compute in design.kernel(variant) for variant in design.variants().values())


def test_what_follows_a_block_of_rows_needs_no_memory_for_the_product() -> None:
    design = design_of(product_then([("sigmoid.default", [], SHAPE), ("sum.dim_IntList", [[1], False], [ROWS])]))
    variants = design.variants()
    (blocked,) = design.kernels_of(variants["blocked"])
    assert isinstance(blocked, Blocked)
    assert [buffer.spec.shape for buffer in blocked.outputs] == [(ROWS,)]
    assert sum(buffer.spec.numel for kernel in design.kernels for buffer in kernel.outputs) > ROWS * COLUMNS


@pytest.mark.parametrize("dim", [0, 1])
def test_only_what_reads_a_product_row_by_row_follows_block_by_block(dim: int) -> None:
    design = design_of(product_then([("_softmax.default", [dim, False], SHAPE)]))
    assert ("blocked" in design.variants()) == (dim == 1)


def test_a_product_of_integers_is_refused_with_the_reason() -> None:
    with pytest.raises(Unsupported, match="dense matrices of integers"):
        design_of(product_then(RELU, dtype="int64"))


def test_without_libraries_a_product_is_refused_with_the_reason() -> None:
    with pytest.raises(Unsupported, match="libraries: own"):
        choose(read_graph(product_then(RELU), {"libraries": "own"}))


def test_a_factor_of_an_operand_is_the_product_s() -> None:
    nodes = [
        node(0, "aten.mul.Tensor", [ref("i0"), -2.0], [ROWS, DEPTH]),
        node(1, "aten.mm.default", [ref("n0"), ref("i1")], SHAPE),
    ]
    design = design_of(analysis([tensor("i0", [ROWS, DEPTH]), tensor("i1", [DEPTH, COLUMNS])], nodes))
    assert design.kernels == (product_of(design),)
    assert product_of(design).alpha == -2.0
