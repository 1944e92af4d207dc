"""What several passes over a row compute alike is kept by the first of them, where it is dear and the row short."""

from collections.abc import Sequence
from dataclasses import replace

from cuda_agent.llm.builtin.dtypes import HALVES
from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Index, Load, depth_first, rewriting
from cuda_agent.llm.builtin.graph import TensorSpec, dense_strides
from cuda_agent.llm.builtin.nest import Access
from cuda_agent.llm.builtin.pointwise import convert
from cuda_agent.llm.builtin.rows import Pass, Rows, Sum, Write
from cuda_agent.llm.builtin.stage import Buffer

KEPT_COLUMNS = 8192
"""Longer rows would not stay in the second-level cache next to their inputs."""
_DEAR = (
    "exp exp2 expm1 log log2 log10 log1p sin cos tan tanh sinh cosh asin acos atan asinh acosh atanh erf erfc sigmoid "
    "silu gelu gelu_tanh mish softplus log_sigmoid elu celu logaddexp xlogy pow atan2 hypot fmod remainder floor_divide"
)
DEAR = frozenset(_DEAR.split())
"""Functions that cost more than a read from the first-level cache."""


class Keys:
    """Numbers expressions so that equal ones have the same number."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[object, ...], int] = {}
        self._known: dict[int, tuple[Expr, int]] = {}

    def of(self, expr: Expr) -> int:
        """Return the number of an expression."""
        for node in depth_first([expr]):
            if id(node) not in self._known:
                self._known[id(node)] = node, self._numbers.setdefault(self._shape(node), len(self._numbers))
        return self._known[id(expr)][1]

    def _shape(self, node: Expr) -> tuple[object, ...]:
        if isinstance(node, Apply):
            return (node.fn, node.dtype, *(self._known[id(arg)][1] for arg in node.args))
        if isinstance(node, Const):
            return ("number", node.dtype, repr(node.value))
        return (type(node).__name__, node.dtype, node.index, node.source if isinstance(node, Load) else "")


def with_kept(rows: Rows) -> Rows:
    """Return the kernel with dear expressions kept between its passes."""
    if rows.across or len(rows.passes) < 2:
        return rows
    keys = Keys()
    passes = list(rows.passes)
    buffers: list[Buffer] = []
    accesses: list[Access] = []
    for first in range(len(passes) - 1):
        one = passes[first]
        if one.width > KEPT_COLUMNS:
            continue
        place = Index(0, (0,) * len(one.rows) + dense_strides(one.columns))
        found = shared(one, [other for other in passes[first + 1 :] if same_walk(one, other)], keys)
        for number, expr in found.items():
            name, dtype = f"kept{len(buffers)}", "float32" if expr.dtype in HALVES else expr.dtype
            buffer = Buffer(name, TensorSpec(name, (one.width,), (1,), dtype))
            buffers.append(buffer)
            accesses.append(Access(f"y{len(accesses)}", buffer, place))
            kept = convert(Load(name, dtype, place), expr.dtype)
            passes[first] = replace(passes[first], writes=(*passes[first].writes, Write(buffer, expr, place)))
            for later in range(first + 1, len(passes)):
                if same_walk(one, passes[later]):
                    passes[later] = substituted(passes[later], number, kept, keys)
    return replace(rows, passes=tuple(passes), accesses=(*rows.accesses, *accesses), kept=tuple(buffers))


def same_walk(one: Pass, other: Pass) -> bool:
    """Whether two passes have the same dimensions."""
    return (one.rows, one.columns) == (other.rows, other.columns)


def shared(one: Pass, later: Sequence[Pass], keys: Keys) -> dict[int, Expr]:
    """Return the largest dear expressions of a pass that a later pass computes as well, by number."""
    here = {keys.of(node): node for node in depth_first(one.exprs)}
    found: dict[int, Expr] = {}
    for other in later:
        stack = list(other.exprs)
        seen: set[int] = set()
        while stack:
            node = stack.pop()
            if id(node) in seen or not isinstance(node, Apply):
                continue
            seen.add(id(node))
            number = keys.of(node)
            if number in here and is_dear(node, len(one.rows)):
                found[number] = here[number]
            else:
                stack.extend(node.args)
    return found


def is_dear(expr: Expr, rows: int) -> bool:
    """Whether an expression has a dear function of something that differs from column to column."""
    nodes = depth_first([expr])
    return any(isinstance(node, Apply) and node.fn in DEAR and varies(node, rows) for node in nodes)


def varies(expr: Expr, rows: int) -> bool:
    """Whether an expression differs from column to column; its first `rows` dimensions are the row's."""
    leaves = [node for node in depth_first([expr]) if not isinstance(node, Apply | Const)]
    return any(any(leaf.index.strides[rows:]) for leaf in leaves)


def substituted(one: Pass, number: int, kept: Expr, keys: Keys) -> Pass:
    """Return the pass reading what was kept."""
    visit = rewriting(lambda node: kept if isinstance(node, Apply) and keys.of(node) == number else None)
    sums = tuple(Sum(each.name, each.dtype, each.fn, visit(each.expr)) for each in one.sums)
    return replace(one, sums=sums, writes=tuple(replace(each, expr=visit(each.expr)) for each in one.writes))
