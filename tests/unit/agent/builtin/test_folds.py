"""Which reductions share a walk over their row on cuda, and what is held between walks."""

from typing import Any

import pytest
from tests.unit.agent.builtin.graphs import Json, analysis, node, ref, tensor

from cuda_agent.llm.builtin.cuda_options import CudaOptions
from cuda_agent.llm.builtin.design import Design
from cuda_agent.llm.builtin.folds import walks_of
from cuda_agent.llm.builtin.graph import read_graph
from cuda_agent.llm.builtin.recipes import choose
from cuda_agent.llm.builtin.row_layout import Layout
from cuda_agent.llm.builtin.row_plan import plan_of
from cuda_agent.llm.builtin.rows import Rows

PROCESSORS = 132


def design_of(shape: list[int], op: str, more: list[Any], out: list[int], dtype: str = "float32") -> Design:
    graph: Json = analysis([tensor("i0", shape)], [node(0, f"aten.{op}", [ref("i0"), *more], out, dtype)], "cuda")
    return choose(read_graph(graph))


def only_rows(design: Design) -> Rows:
    (kernel,) = design.kernels
    assert isinstance(kernel, Rows)
    return kernel


def layout(design: Design, held: int = 0) -> Layout:
    return plan_of(only_rows(design), CudaOptions(held=held, items=4), PROCESSORS).layout


ONE_WALK = [
    ("_softmax.default", [1, False], [64, 5000], "float32", ["powers"]),
    ("_log_softmax.default", [1, False], [64, 5000], "float32", ["powers"]),
    ("logsumexp.default", [[1]], [64], "float32", ["finite_powers"]),
    ("var.correction", [[1]], [64], "float32", ["moments"]),
    ("argmax.default", [1], [64], "int64", ["first_max"]),
    ("argmin.default", [0], [5000], "int64", ["first_min"]),
    ("amax.default", [[1], False], [64], "float32", ["max"]),
]


@pytest.mark.parametrize(("op", "more", "out", "dtype", "kinds"), ONE_WALK)
def test_numbers_that_need_each_other_are_gathered_in_one_walk(
    op: str, more: list[Any], out: list[int], dtype: str, kinds: list[str]
) -> None:
    first, *rest = walks_of(only_rows(design_of([64, 5000], op, more, out, dtype)))
    assert [fold.kind for fold in first.folds] == kinds
    assert not any(walk.folds for walk in rest)


def test_a_number_that_needs_all_of_another_has_a_walk_of_its_own() -> None:
    nodes = [
        node(0, "aten.mean.dim", [ref("i0"), [1], True], [64, 1]),
        node(1, "aten.sub.Tensor", [ref("i0"), ref("n0")], [64, 5000]),
        node(2, "aten.abs.default", [ref("n1")], [64, 5000]),
        node(3, "aten.mean.dim", [ref("n2"), [1]], [64]),
    ]
    walks = walks_of(only_rows(choose(read_graph(analysis([tensor("i0", [64, 5000])], nodes, "cuda")))))
    assert [[fold.kind for fold in walk.folds] for walk in walks] == [["sum"], ["sum"], []]


def test_a_row_is_held_by_as_many_blocks_as_its_bytes_need() -> None:
    widths = [4096, 27000, 50000, 393216, 2000000, 3000000]
    teams = [layout(design_of([64, width], "_softmax.default", [1, False], [64, width]), 2).team for width in widths]
    assert teams == [1, 1, 2, 22, 88, 0], "and by none where too few teams would run at once to wait for each other"


def test_a_team_runs_at_once_and_its_blocks_consist_of_warps() -> None:
    for width in [*range(1_500, 30_000, 3_333), *range(30_000, 7_000_000, 333_333)]:
        for held in (1, 2, 3, 4):
            found = layout(design_of([64, width], "_softmax.default", [1, False], [64, width]), held)
            assert found.size % 32 == 0
            assert found.team <= held * PROCESSORS
            if found.team:
                assert found.size * held <= 2048
                assert found.team * found.chunk >= width
                assert found.chunk * 4 + 32 <= 227 * 1024 // held - 1024


def test_what_is_read_once_is_not_held() -> None:
    assert layout(design_of([64, 50000], "amax.default", [[1], False], [64]), 2).team == 0
    names = design_of([64, 50000], "amax.default", [[1], False], [64]).variants()
    assert not [name for name in names if name.startswith("held")]


def test_variants_differ_in_more_than_their_names() -> None:
    design = design_of([64, 50000], "_softmax.default", [1, False], [64, 50000])
    texts = [design.kernel(variant).split("\n", 2)[2] for variant in design.variants().values()]
    assert len(set(texts)) == len(texts) >= 4


def test_the_states_of_a_blocks_lanes_fit_into_its_static_shared_memory() -> None:
    nodes = [
        node(0, "aten.var.correction", [ref("i0"), [1]], [8, 4096], "float64"),
        node(1, "aten.amax.default", [ref("i0"), [1], False], [8, 4096], "float64"),
        node(2, "aten.logsumexp.default", [ref("i0"), [1]], [8, 4096], "float64"),
        node(3, "aten.add.Tensor", [ref("n0"), ref("n1")], [8, 4096], "float64"),
        node(4, "aten.add.Tensor", [ref("n3"), ref("n2")], [8, 4096], "float64"),
    ]
    kernel = only_rows(choose(read_graph(analysis([tensor("i0", [8, 9000, 4096], "float64")], nodes, "cuda"))))
    plan = plan_of(kernel, CudaOptions(block=512, items=4), PROCESSORS)
    vector = max(plan.width(steps) for steps in plan.steps)
    assert plan.layout.across
    assert plan.layout.size * vector * sum(fold.words for fold in plan.folds) * 8 <= 48 * 1024


def test_many_columns_over_few_lanes_are_cut_into_parts() -> None:
    design = design_of([200_000, 40], "sum.dim_IntList", [[0], False], [40])
    found = layout(design)
    assert found.across
    assert found.parts >= PROCESSORS
    assert found.parts * found.chunk >= 200_000
