"""What a GPU's threads gather in one walk over a row: reductions that need each other's results become one of them.

A variance beside its mean, a sum of exponentials beside its maximum, and the place of an extreme beside the extreme are
gathered together, part by part, so that a row too long for a cache is read once for both.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from cuda_agent.llm.builtin.dtypes import COMPUTED, ITEM_BYTES, category
from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Load, depth_first
from cuda_agent.llm.builtin.graph import Shape, numel
from cuda_agent.llm.builtin.keep import Keys
from cuda_agent.llm.builtin.rows import Pass, Rows, Sum, Write

Kind = Literal["sum", "prod", "max", "min", "moments", "powers", "finite_powers", "first_max", "first_min"]
SIMPLE = {"sum": "Total", "prod": "Product", "max": "Highest", "min": "Lowest"}
STATES = {
    "moments": "Moments<{}>",
    "powers": "Powers<{}, false>",
    "finite_powers": "Powers<{}, true>",
    "first_max": "First<{}, true>",
    "first_min": "First<{}, false>",
}
FIELDS = {"moments": 3, "powers": 2, "finite_powers": 2, "first_max": 2, "first_min": 2}


@dataclass(frozen=True)
class Number:
    """One result of a fold: the name that expressions know it by, and how it is read off the state."""

    name: str
    dtype: str
    text: str


@dataclass(frozen=True)
class Fold:
    """What is gathered of every element of a row."""

    kind: Kind
    dtype: str
    exprs: tuple[Expr, ...]
    """The value; for the place of an extreme, the position after it."""
    numbers: tuple[Number, ...]

    @property
    def name(self) -> str:
        """What its state is called after."""
        return self.numbers[0].name

    @property
    def state(self) -> str:
        """The C++ type of its state."""
        kind = COMPUTED[self.dtype]
        return f"{SIMPLE[self.kind]}<{kind}>" if self.kind in SIMPLE else STATES[self.kind].format(kind)

    @property
    def words(self) -> int:
        """How many words of eight bytes hold a state."""
        return -(-FIELDS.get(self.kind, 1) * max(4, ITEM_BYTES[self.dtype]) // 8)

    @property
    def function(self) -> str:
        """The snippet of the prelude that it needs."""
        return {"finite_powers": "powers", "first_max": "first", "first_min": "first"}.get(self.kind, self.kind)


@dataclass(frozen=True)
class Walk:
    """One walk over the columns of a row. Its dimensions are those of `rows`, then those of `columns`."""

    rows: Shape
    columns: Shape
    folds: tuple[Fold, ...] = ()
    writes: tuple[Write, ...] = ()

    @property
    def sizes(self) -> Shape:
        """The size of every dimension."""
        return self.rows + self.columns

    @property
    def width(self) -> int:
        """Columns in all."""
        return numel(self.columns)

    @property
    def exprs(self) -> list[Expr]:
        """Everything that it computes: of the folds first."""
        return [*(expr for fold in self.folds for expr in fold.exprs), *(one.expr for one in self.writes)]

    def loads(self) -> list[Load]:
        """Every element that it reads, of memory and of earlier walks."""
        return [node for node in depth_first(self.exprs) if isinstance(node, Load)]


@dataclass
class _Planner:
    """Puts the sums and writes of passes into as few walks as their order allows."""

    keys: Keys = field(default_factory=Keys)
    walks: list[Walk] = field(default_factory=list)
    homes: dict[str, int] = field(default_factory=dict)
    """By number: the walk that gathers it."""

    def add_sum(self, one: Pass, sum_: Sum) -> None:
        for place, walk in enumerate(self.walks):
            if (walk.rows, walk.columns) != (one.rows, one.columns):
                continue
            for fold in walk.folds:
                both = joint(fold, sum_, one.width, self.keys)
                if both is not None and self._after(sum_.expr, fold) <= place:
                    folds = tuple(both if each is fold else each for each in walk.folds)
                    self.walks[place] = replace(walk, folds=folds)
                    self.homes[sum_.name] = place
                    return
        fold = Fold(sum_.fn, sum_.dtype, (sum_.expr,), (Number(sum_.name, sum_.dtype, "value"),))
        place = self._walk(one, sum_.expr)
        self.walks[place] = replace(self.walks[place], folds=(*self.walks[place].folds, fold))
        self.homes[sum_.name] = place

    def add_write(self, one: Pass, write: Write) -> None:
        """Add it to the first walk that knows its numbers and after which nobody reads what it may overwrite."""
        name = write.buffer.name
        reading = [k for k, walk in enumerate(self.walks) if any(load.source == name for load in walk.loads())]
        place = self._walk(one, write.expr, max(reading, default=0))
        self.walks[place] = replace(self.walks[place], writes=(*self.walks[place].writes, write))

    def _after(self, expr: Expr, known: Fold | None = None) -> int:
        """Return the first walk in which every number that an expression uses is known."""
        own = {number.name for number in known.numbers} if known else set()
        used = {node.source for node in depth_first([expr]) if isinstance(node, Load)} - own
        return max((self.homes[name] + 1 for name in used if name in self.homes), default=0)

    def _walk(self, one: Pass, expr: Expr, least: int = 0) -> int:
        first = max(self._after(expr), least)
        for place in range(first, len(self.walks)):
            if (self.walks[place].rows, self.walks[place].columns) == (one.rows, one.columns):
                return place
        self.walks.append(Walk(one.rows, one.columns))
        return len(self.walks) - 1


def walks_of(rows: Rows) -> tuple[Walk, ...]:
    """Return the walks that do what the passes of a kernel do."""
    planner = _Planner()
    for one in rows.passes:
        for sum_ in one.sums:
            planner.add_sum(one, sum_)
        for write in one.writes:
            planner.add_write(one, write)
    return tuple(planner.walks)


def joint(fold: Fold, sum_: Sum, width: int, keys: Keys) -> Fold | None:
    """Return one fold for a reduction and another that uses its result; None where there is none."""
    if category(fold.dtype) == 2 and COMPUTED[fold.dtype] == COMPUTED[sum_.dtype]:
        if fold.kind == "sum" and sum_.fn == "sum" and is_spread(sum_.expr, fold, width, keys):
            return together(fold, sum_, "moments", "apart")
        kind = powers_kind(sum_.expr, fold, keys) if fold.kind == "max" and sum_.fn == "sum" else None
        if kind is not None:
            return together(fold, sum_, kind, "sum()")
    place = place_of(sum_, fold, keys)
    if place is not None:
        kind = "first_max" if fold.kind == "max" else "first_min"
        return replace(together(fold, sum_, kind, "place"), exprs=(fold.exprs[0], place))
    return None


def together(fold: Fold, sum_: Sum, kind: Kind, text: str) -> Fold:
    """Return the fold of a kind that gives both numbers."""
    return replace(fold, kind=kind, numbers=(*fold.numbers, Number(sum_.name, sum_.dtype, text)))


def bare(expr: Expr) -> Expr:
    """Return what an expression is without conversions that change nothing in registers."""
    while isinstance(expr, Apply) and expr.fn == "convert" and COMPUTED[expr.dtype] == COMPUTED[expr.args[0].dtype]:
        expr = expr.args[0]
    return expr


def args_of(expr: Expr, fn: str) -> Sequence[Expr] | None:
    """Return the arguments of a function, bare; None where the expression is something else."""
    expr = bare(expr)
    return [bare(arg) for arg in expr.args] if isinstance(expr, Apply) and expr.fn == fn else None


def is_number(expr: Expr, fold: Fold) -> bool:
    """Whether an expression is the first number of a fold."""
    return isinstance(expr, Load) and expr.source == fold.name


def apart_from(expr: Expr, fold: Fold, keys: Keys) -> Expr | None:
    """Return what is subtracted from the fold's value; None where the expression is something else."""
    args = args_of(expr, "sub")
    return args[1] if args and keys.of(args[0]) == keys.of(bare(fold.exprs[0])) else None


def is_spread(expr: Expr, fold: Fold, width: int, keys: Keys) -> bool:
    """Whether an expression is the square of the distance from the mean."""
    args = args_of(expr, "mul")
    if args is None or keys.of(args[0]) != keys.of(args[1]):
        return False
    mean = args_of(apart_from(args[0], fold, keys) or Const(0, "float32"), "div")
    return mean is not None and is_number(mean[0], fold) and isinstance(mean[1], Const) and mean[1].value == width


def powers_kind(expr: Expr, fold: Fold, keys: Keys) -> Kind | None:
    """Say whether an expression is exp(value - maximum), or the same with an infinite maximum taken as 0."""
    args = args_of(expr, "exp")
    top = apart_from(args[0], fold, keys) if args else None
    if top is None:
        return None
    if is_number(top, fold):
        return "powers"
    picked = args_of(top, "where")
    infinite = args_of(picked[0], "isinf") if picked else None
    if picked is None or infinite is None:
        return None
    zero = isinstance(picked[1], Const) and picked[1].value == 0
    return "finite_powers" if zero and is_number(picked[2], fold) and is_number(infinite[0], fold) else None


def place_of(sum_: Sum, fold: Fold, keys: Keys) -> Expr | None:
    """Return the position that a reduction finds the first of, where the fold's extreme is."""
    if fold.kind not in ("max", "min") or sum_.fn != "min" or sum_.dtype != "int32":
        return None
    args = args_of(sum_.expr, "where")
    if args is None or not isinstance(args[2], Const):
        return None
    value = keys.of(bare(fold.exprs[0]))
    for test in either(args[0]):
        equal, nan = args_of(test, "eq"), args_of(test, "isnan")
        if equal and keys.of(equal[0]) == value and is_number(equal[1], fold):
            continue
        if not (nan and keys.of(nan[0]) == value):
            return None
    return args[1]


def either(expr: Expr) -> Iterator[Expr]:
    """Return what an expression is one or the other of."""
    args = args_of(expr, "logical_or")
    if args is None:
        yield expr
        return
    for arg in args:
        yield from either(arg)
