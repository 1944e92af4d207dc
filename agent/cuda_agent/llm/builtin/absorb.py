"""What the library can do to a product while it still holds it: scale it, add a row, end with ReLU or GELU by tanh.

Doubles it only scales.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Load, depth_first, rewriting
from cuda_agent.llm.builtin.graph import Shape
from cuda_agent.llm.builtin.in_place import sources, written
from cuda_agent.llm.builtin.rows import stage_exprs
from cuda_agent.llm.builtin.stage import Matrix, Plan, Product, Reduce, Stage, Step


@dataclass(frozen=True)
class Found:
    """One operation on an element of a product: what the product becomes by it."""

    alpha: float = 1.0
    bias: str = ""
    offset: int = 0
    activation: str = ""


Recognise = Callable[[Apply, Load, Shape, Product], Found | None]


def with_scales(plan: Plan) -> Plan:
    """Return the plan with every multiplication of a whole product by a number inside the product."""
    return absorbed(plan, [scale])


def with_epilogues(plan: Plan) -> Plan:
    """Return the plan with whatever the library's own epilogues do inside the products."""
    return absorbed(plan, [scale, row, last])


def absorbed(plan: Plan, recognise: Sequence[Recognise]) -> Plan:
    """Return the plan with operations moved into the products for as long as one is recognised."""
    stages = list(plan.stages)
    returned = set(plan.results.values())
    for place, product in enumerate(stages):
        known = plan.inputs.keys() | {one.name for stage in stages[:place] for one in written(stage)}
        while isinstance(product, Product) and product.buffer.name not in returned:
            moved = first_move(product, stages, recognise)
            if moved is None or (moved[0].bias and moved[0].bias.buffer.name not in known):
                break  # a bias that is computed behind the product cannot go into it
            product, stages = moved
            stages[place] = product
    return replace(plan, stages=tuple(stages))


def first_move(
    product: Product, stages: list[Step], recognise: Sequence[Recognise]
) -> tuple[Product, list[Step]] | None:
    """Return the product and the stages after one operation has moved; None where none can."""
    users = [stage for stage in stages if product.buffer.name in sources(stage)]
    if not users or any(isinstance(user, Product) for user in users):
        return None
    for rule in recognise:
        found = {one for user in users for one in operations(user, product, rule)}
        if len(found) == 1 and (only := found.pop()) is not None:
            grown = product_with(product, only)
            return grown, [without(stage, product) if stage in users else stage for stage in stages]
    return None


def operations(user: Step, product: Product, rule: Recognise) -> list[Found | None]:
    """Return what a stage does first with each element of the product that it reads; None for anything else."""
    name, exprs, shape = product.buffer.name, stage_exprs(user), shape_of(user)
    found: list[Found | None] = [None for root in exprs if isinstance(root, Load) and root.source == name]
    for node in depth_first(exprs):
        for arg in node.args if isinstance(node, Apply) else ():
            if isinstance(node, Apply) and isinstance(arg, Load) and arg.source == name:
                found.append(rule(node, arg, shape, product))
    return found


def shape_of(stage: Step) -> Shape:
    """Return the index space of a stage's expressions."""
    if isinstance(stage, Stage):
        return stage.shape
    return stage.outer + stage.inner if isinstance(stage, Reduce) else ()


def scale(node: Apply, load: Load, _shape: Shape, product: Product) -> Found | None:
    """Recognise a product times a number."""
    if product.bias or product.activation:
        return None
    if node.fn == "neg":
        return Found(alpha=-1.0)
    other = node.args[-1] if node.args[0] is load else node.args[0]
    if not isinstance(other, Const) or len(node.args) != 2:
        return None
    if node.fn == "mul":
        return Found(alpha=float(other.value))
    return Found(alpha=1 / other.value) if node.fn == "div" and node.args[0] is load and other.value else None


def row(node: Apply, load: Load, shape: Shape, product: Product) -> Found | None:
    """Recognise a product plus a row that is the same for each of its rows."""
    if node.fn != "add" or product.bias or product.activation or product.buffer.spec.dtype == "float64":
        return None
    other = node.args[1] if node.args[0] is load else node.args[0]
    if not isinstance(other, Load) or other.dtype != load.dtype or other.source == load.source or load.index.offset:
        return None
    for size, step, along in zip(shape, load.index.strides, other.index.strides, strict=True):
        if size != 1 and along != (step if step * size <= product.columns else 0):
            return None
        if size != 1 and step * size > product.columns and step % product.columns:
            return None
    return Found(bias=other.source, offset=other.index.offset)


def last(node: Apply, _load: Load, _shape: Shape, product: Product) -> Found | None:
    """Recognise a ReLU, or a GELU by tanh."""
    if product.activation or node.fn not in ("relu", "gelu_tanh") or product.buffer.spec.dtype == "float64":
        return None
    return Found(activation=node.fn)


def product_with(product: Product, found: Found) -> Product:
    """Return the product with one operation more."""
    product = replace(product, alpha=product.alpha * found.alpha)
    if found.activation:
        return replace(product, activation="relu" if found.activation == "relu" else "gelu_tanh")
    if not found.bias:
        return product
    spec = replace(product.buffer.spec, id=found.bias)
    buffer = replace(product.buffer, name=found.bias, spec=spec)
    return replace(product, bias=Matrix(buffer, found.offset, False, product.columns, 0))


def without(stage: Step, product: Product) -> Step:
    """Return a stage without what it does first with the product's elements."""

    def rule(node: Expr) -> Expr | None:
        if not isinstance(node, Apply):
            return None
        return next((arg for arg in node.args if isinstance(arg, Load) and arg.source == product.buffer.name), None)

    change = rewriting(rule)
    if isinstance(stage, Reduce):
        return replace(stage, body=change(stage.body))
    if isinstance(stage, Stage):
        return replace(stage, stores=tuple(replace(store, expr=change(store.expr)) for store in stage.stores))
    return stage
