"""A product's elements that are read by what comes behind it, and then by nobody, become the result where they lie."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from cuda_agent.llm.builtin.expr import Expr, Index, Load, depth_first, rewriting
from cuda_agent.llm.builtin.graph import Shape, dense_strides, numel
from cuda_agent.llm.builtin.rows import Group, stage_exprs
from cuda_agent.llm.builtin.stage import Buffer, Product, Reduce, Stage, Step, Store

Unit = Group | Stage | Product


def settled(
    stages: Sequence[Step], units: Sequence[Unit], homes: Mapping[str, int], results: frozenset[str]
) -> list[Step]:
    """Return the stages with every product in the place of a result that is computed from it, where that is safe.

    `units` are the kernels in the making, `homes` says in which of them a buffer is written.
    """
    done = list(stages)
    for product in [stage for stage in stages if isinstance(stage, Product)]:
        name = product.buffer.name
        users = [stage for stage in done if name in sources(stage)]
        if name in results or not users or not isinstance(users[-1], Stage):
            continue
        last = users[-1]
        home = homes[last.stores[0].buffer.name]
        # What reads the product must have run when it is overwritten.
        if any(homes[one.name] > home for user in users for one in written(user)):
            continue
        taken = {one.buffer.name for one in done if isinstance(one, Product)}
        store = heir(product, last, units[home], taken)
        if store is not None:
            done = taken_over(done, product, last, store)
    return done


def sources(stage: Step) -> set[str]:
    """Return the names of what a stage reads."""
    if isinstance(stage, Product):
        return {buffer.name for buffer in stage.reads}
    return {node.source for node in depth_first(stage_exprs(stage)) if isinstance(node, Load)}


def written(stage: Step) -> list[Buffer]:
    """Return the buffers that a stage fills."""
    return [store.buffer for store in stage.stores] if isinstance(stage, Stage) else [stage.buffer]


def heir(product: Product, last: Stage, unit: Unit, taken: set[str]) -> Store | None:
    """Return the store of the last stage that may take the product's place and that no other product has `taken`."""
    name, spec = product.buffer.name, product.buffer.spec
    place = Index(0, last.strides)
    if not all(same_place(load.index, place, last.shape) for load in loads_of(stage_exprs(last), name)):
        return None
    if isinstance(unit, Group) and not own_rows_only(unit, name, last):
        return None
    fitting = [
        store
        for store in last.stores
        if store.buffer.name not in taken
        and store.buffer.spec.dtype == spec.dtype
        and numel(last.shape) == spec.numel
        and covers_all(Index(0, last.strides), last.shape)
    ]
    fitting.sort(key=lambda store: not is_copy(store.expr, name))
    return fitting[0] if fitting else None


def loads_of(exprs: Sequence[Expr], name: str) -> list[Load]:
    """Return the elements of a buffer that expressions read."""
    return [node for node in depth_first(list(exprs)) if isinstance(node, Load) and node.source == name]


def same_place(index: Index, place: Index, shape: Shape) -> bool:
    """Whether two index maps are one over this shape."""
    pairs = zip(index.strides, place.strides, shape, strict=True)
    return index.offset == place.offset and all(a == b for a, b, size in pairs if size != 1)


def covers_all(index: Index, shape: Shape) -> bool:
    """Whether an index map meets each position from 0 on exactly once."""
    pairs = sorted((step, size) for step, size in zip(index.strides, shape, strict=True) if size != 1)
    return (
        index.offset == 0
        and [step for step, _ in pairs] == list(dense_strides([size for _, size in pairs[::-1]]))[::-1]
    )


def own_rows_only(unit: Group, name: str, last: Stage) -> bool:
    """Whether each row of a row kernel reads no more of a buffer than what that row overwrites in the end."""
    outputs = {store.buffer.name for store in last.stores}
    (place,) = {
        (one.rows, write.place.strides[: len(one.rows)])
        for one in unit.passes
        for write in one.writes
        if write.buffer.name in outputs
    }
    return all(
        (one.rows, load.index.strides[: len(one.rows)]) == place and covers_all(load.index, one.rows + one.columns)
        for one in unit.passes
        for load in loads_of(one.exprs, name)
    )


def is_copy(expr: Expr, name: str) -> bool:
    """Whether an expression is an element of a buffer and nothing else."""
    return isinstance(expr, Load) and expr.source == name


def taken_over(stages: Sequence[Step], product: Product, last: Stage, store: Store) -> list[Step]:
    """Return the stages with the product in the store's buffer; a stage that would copy it onto itself is left out."""
    old, new = product.buffer.name, store.buffer
    rename = rewriting(
        lambda node: replace(node, source=new.name) if isinstance(node, Load) and node.source == old else None
    )
    done: list[Step] = []
    for stage in stages:
        if isinstance(stage, Product) and stage.buffer.name == old:
            done.append(replace(stage, buffer=new))
        elif isinstance(stage, Product):
            done.append(with_source(stage, old, new))
        elif isinstance(stage, Reduce):
            done.append(replace(stage, body=rename(stage.body)))
        else:
            kept = [one for one in stage.stores if not (one is store and is_copy(one.expr, old))]
            if kept:
                done.append(replace(stage, stores=tuple(replace(one, expr=rename(one.expr)) for one in kept)))
    return done


def with_source(product: Product, old: str, new: Buffer) -> Product:
    """Return a product that reads the new buffer in place of an old one."""
    left, right = (replace(one, buffer=new) if one.buffer.name == old else one for one in (product.left, product.right))
    return replace(product, left=left, right=right)
