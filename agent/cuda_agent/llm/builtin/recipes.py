"""Which recipe an operator gets, by its graph alone."""

from cuda_agent.llm.builtin.design import Design, make_design
from cuda_agent.llm.builtin.graph import Graph, Unsupported
from cuda_agent.llm.builtin.in_place import written
from cuda_agent.llm.builtin.kernels import needed
from cuda_agent.llm.builtin.lowering import Lowering
from cuda_agent.llm.builtin.stage import Product, Reduce


def choose(graph: Graph) -> Design:
    """Return the design for an operator.

    Raises:
        Unsupported: no recipe covers it; the message names what is in the way.
    """
    if graph.target not in ("cpu", "cuda"):
        raise Unsupported(f"the target {graph.target!r}")
    plan = Lowering(graph).run()
    stages = needed(plan)
    if plan.dense & {buffer.name for stage in stages for buffer in written(stage)}:
        raise Unsupported("a product of two dense matrices of integers, unless a sum over it can be pulled through")
    products = sum(isinstance(stage, Product) for stage in stages)
    if products:
        made = "a matrix product" if products == 1 else f"{products} matrix products"
        summary = f"{made[0].upper()}{made[1:]} by the vendor's library, what comes behind fused and in place."
        return make_design("gemm_epilogue", summary, graph, plan)
    if plan.products:
        summary = (
            "A product with a diagonal matrix is a scaling of rows or columns: one pass over memory, no matrix product."
        )
        return make_design("diagonal_product", summary, graph, plan)
    if any(isinstance(stage, Reduce) for stage in stages):
        summary = f"{plan.operations} operations around reductions: each row is read while it is in a cache."
        return make_design("row_reductions", summary, graph, plan)
    summary = f"{plan.operations} pointwise operations fused into one pass over memory."
    return make_design("pointwise_chain", summary, graph, plan)
