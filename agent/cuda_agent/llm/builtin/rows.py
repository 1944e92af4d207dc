"""Row kernels: reductions and what uses their results, brought together so that a row is read while it is in a cache.

A row is one index of what a reduction leaves. Each pass of a kernel runs over the columns of a row and leaves numbers
(reductions) or writes elements; later passes use the numbers of earlier ones. A stage joins a kernel when every number
that it uses there belongs to its own row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Index, Load, depth_first, map_index
from cuda_agent.llm.builtin.graph import Shape, dense_strides, numel
from cuda_agent.llm.builtin.nest import Access, only_read
from cuda_agent.llm.builtin.stage import Buffer, Product, Reduce, ReduceFn, Stage, Step

SHORT = 32
"""Rows up to this long do not fill the lanes of a walk along them."""


@dataclass(frozen=True)
class Sum:
    """One number a row, of an expression over the row's columns."""

    name: str
    dtype: str
    fn: ReduceFn
    expr: Expr


@dataclass(frozen=True)
class Write:
    """Elements of a buffer; `place` says where, over the pass's dimensions."""

    buffer: Buffer
    expr: Expr
    place: Index


@dataclass(frozen=True)
class Pass:
    """One walk over the columns of a row. Its dimensions are those of `rows`, then those of `columns`."""

    rows: Shape
    columns: Shape
    sums: tuple[Sum, ...]
    writes: tuple[Write, ...]

    @property
    def exprs(self) -> list[Expr]:
        """Everything that it computes: sums first."""
        return [*(one.expr for one in self.sums), *(one.expr for one in self.writes)]

    @property
    def width(self) -> int:
        """Columns in all."""
        return numel(self.columns)

    def loads(self) -> list[Load]:
        """Every element that it reads, of memory and of earlier passes."""
        return [node for node in depth_first(self.exprs) if isinstance(node, Load)]


@dataclass(frozen=True)
class Rows:
    """One kernel over rows."""

    count: int
    passes: tuple[Pass, ...]
    accesses: tuple[Access, ...]
    """How memory is read, by every pass."""
    outputs: tuple[Buffer, ...]
    across: bool
    """Lanes are neighbouring rows, not neighbouring columns."""
    kept: tuple[Buffer, ...] = ()
    """Scratch of one row: what a pass leaves for later ones."""

    @property
    def total(self) -> int:
        """Elements that it walks over at most; 0 when there is nothing to do."""
        return self.count * max(one.width for one in self.passes)

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """What it reads and does not write, each buffer once."""
        return only_read(self.accesses, [*self.outputs, *self.kept])

    @property
    def numbers(self) -> dict[str, Sum]:
        """The sums by name."""
        return {one.name: one for each in self.passes for one in each.sums}

    @property
    def run(self) -> int:
        """Neighbouring rows that lie side by side, the same in every pass; 1 unless `across`."""
        return self.passes[0].rows[-1] if self.across else 1

    def access(self, load: Load) -> Access:
        """Return the access that a load of memory is."""
        return next(a for a in self.accesses if a.buffer.name == load.source and a.index == load.index)


@dataclass
class Group:
    """A kernel in the making."""

    count: int
    passes: list[Pass]
    numbers: dict[str, Reduce]
    written: set[str]

    def takes(self, stage: Step) -> Pass | None:
        """Return the stage as a pass of this kernel; None where it does not fit."""
        if isinstance(stage, Product):
            return None
        exprs = stage_exprs(stage)
        sources = {node.source for node in depth_first(exprs) if isinstance(node, Load)}
        if sources & self.written:
            return None
        shape = stage.outer + stage.inner if isinstance(stage, Reduce) else stage.shape
        dims: list[int] | None = None
        for node in depth_first(exprs):
            if isinstance(node, Load) and node.source in self.numbers:
                found = row_dims(shape, node.index, self.count)
                if found is None or dims not in (None, found):
                    return None
                dims = found
        if isinstance(stage, Reduce):
            own = [k for k, size in enumerate(stage.outer) if size != 1]
            if dims not in (None, own) or numel(stage.outer) != self.count:
                return None
            return reduce_pass(stage)
        return None if dims is None else stage_pass(stage, dims)


def row_dims(shape: Shape, index: Index, count: int) -> list[int] | None:
    """Return the dimensions, outermost first, that count a kernel's rows in order; None where the index does not."""
    dims = [k for k, size in enumerate(shape) if size != 1 and index.strides[k]]
    dims.sort(key=lambda k: -index.strides[k])
    wanted = dense_strides([shape[k] for k in dims])
    fits = index.offset == 0 and numel([shape[k] for k in dims]) == count
    return dims if fits and all(index.strides[k] == step for k, step in zip(dims, wanted, strict=True)) else None


def stage_exprs(stage: Step) -> list[Expr]:
    """Return what a stage computes element by element."""
    if isinstance(stage, Product):
        return []
    return [stage.body] if isinstance(stage, Reduce) else [store.expr for store in stage.stores]


def reduce_pass(stage: Reduce) -> Pass:
    """Return a reduction as a pass over its outer dimensions."""
    shape = stage.outer + stage.inner
    rows = [k for k, size in enumerate(stage.outer) if size != 1]
    columns = [k for k in range(len(stage.outer), len(shape)) if shape[k] != 1]
    widest = max(
        (node for node in depth_first([stage.body]) if isinstance(node, Load)),
        key=lambda node: sum(map(bool, node.index.strides)),
        default=None,
    )
    if widest is not None:
        strides = widest.index.strides
        columns.sort(key=lambda k: -abs(strides[k]))
    body = reordered(stage.body, [*rows, *columns])
    one = Sum(stage.buffer.name, stage.buffer.spec.dtype, stage.fn, body)
    return Pass(tuple(shape[k] for k in rows), tuple(shape[k] for k in columns), (one,), ())


def stage_pass(stage: Stage, rows: list[int]) -> Pass:
    """Return a pointwise stage as a pass with these row dimensions."""
    columns = [k for k, size in enumerate(stage.shape) if size != 1 and k not in rows]
    columns.sort(key=lambda k: -abs(stage.strides[k]))
    order = [*rows, *columns]
    place = Index(0, tuple(stage.strides[k] for k in order))
    writes = tuple(Write(store.buffer, reordered(store.expr, order), place) for store in stage.stores)
    return Pass(tuple(stage.shape[k] for k in rows), tuple(stage.shape[k] for k in columns), (), writes)


def reordered(expr: Expr, order: Sequence[int]) -> Expr:
    """Return the expression over these dimensions in this order."""
    return map_index(expr, lambda index: Index(index.offset, tuple(index.strides[k] for k in order)))


def merged_passes(passes: Sequence[Pass]) -> list[Pass]:
    """Walk once where neighbouring passes have the same dimensions and need nothing of each other."""
    done: list[Pass] = []
    for one in passes:
        last = done[-1] if done else None
        if last is not None and (last.rows, last.columns) == (one.rows, one.columns) and independent(last, one):
            done[-1] = Pass(one.rows, one.columns, last.sums + one.sums, last.writes + one.writes)
        else:
            done.append(one)
    return done


def independent(first: Pass, second: Pass) -> bool:
    """Whether the second uses no number of the first."""
    return not {one.name for one in first.sums} & {node.source for node in second.loads()}


def compact(one: Pass, tail: int) -> Pass:
    """Join dimensions wherever every access allows it.

    The last `tail` row dimensions become one that stays on its own (0: rows are joined like columns). A pass without
    columns gets one of size 1.
    """
    indices = indices_of(one)
    count, sizes = len(one.rows), one.rows + one.columns
    groups: list[list[int]] = []
    for k in range(len(sizes)):
        fresh = k == count or (tail > 0 and k == count - tail)
        if groups and not fresh and all(joined(index, groups[-1][-1], k, sizes[k]) for index in indices):
            groups[-1].append(k)
        else:
            groups.append([k])
    spare = () if one.columns else (0,)

    def change(index: Index) -> Index:
        return Index(index.offset, tuple(index.strides[group[-1]] for group in groups) + spare)

    return Pass(
        tuple(numel([sizes[k] for k in group]) for group in groups if group[0] < count),
        tuple(numel([sizes[k] for k in group]) for group in groups if group[0] >= count) or (1,),
        tuple(replace(sum_, expr=map_index(sum_.expr, change)) for sum_ in one.sums),
        tuple(Write(w.buffer, map_index(w.expr, change), change(w.place)) for w in one.writes),
    )


def joined(index: Index, outer: int, inner: int, size: int) -> bool:
    """Whether two dimensions are one for this index."""
    return index.strides[outer] == index.strides[inner] * size


def indices_of(one: Pass) -> list[Index]:
    """Return every index of a pass, of leaves and of writes."""
    leaves = [node.index for node in depth_first(one.exprs) if not isinstance(node, Apply | Const)]
    return leaves + [write.place for write in one.writes]


def lane_dims(passes: Sequence[Pass]) -> int:
    """Return how many of the last row dimensions are one dimension in every pass."""
    tail = 1
    while all(len(one.rows) > tail and one.rows[-tail - 1 :] == passes[0].rows[-tail - 1 :] for one in passes) and all(
        joined(index, len(one.rows) - tail - 1, len(one.rows) - tail, one.rows[-tail])
        for one in passes
        for index in indices_of(one)
    ):
        tail += 1
    return tail


def lies_across(passes: Sequence[Pass], numbers: set[str]) -> bool:
    """Whether to walk across rows: more is contiguous from row to row than from column to column, or rows are short."""
    along = across = 0
    for one in passes:
        if not one.rows or not one.columns:
            continue
        indices = [node.index for node in one.loads() if node.source not in numbers]
        for index in [*indices, *(write.place for write in one.writes)]:
            along += index.strides[-1] == 1
            across += index.strides[len(one.rows) - 1] == 1 and index.strides[-1] != 1
    short = max(one.width for one in passes) <= SHORT
    if not all(one.rows for one in passes) or len({one.rows[-1] for one in passes}) > 1:
        return False
    return across > along or short


def plan_rows(group: Group, buffers: dict[str, Buffer], exported: set[str]) -> Rows:
    """Finish a kernel: its passes in order, and what of its numbers goes to memory."""
    passes = merged_passes(group.passes)
    rows = passes[0].rows
    place = Index(0, dense_strides(rows))
    for name in sorted(exported & group.numbers.keys()):
        buffer = group.numbers[name].buffer
        passes.append(Pass(rows, (), (), (Write(buffer, Load(name, buffer.spec.dtype, place), place),)))
    numbers = set(group.numbers)
    across = group.count > 0 and lies_across(passes, numbers)
    tail = lane_dims(passes) if across else 0
    passes = [compact(one, tail) for one in passes]
    accesses: dict[tuple[str, Index], Access] = {}
    for one in passes:
        for node in one.loads():
            key = (node.source, node.index)
            if node.source not in numbers and key not in accesses:
                accesses[key] = Access(f"x{len(accesses)}", buffers[node.source], node.index)
    outputs = {write.buffer.name: write.buffer for one in passes for write in one.writes}
    return Rows(group.count, tuple(passes), tuple(accesses.values()), tuple(outputs.values()), across)
