"""Pieces of C++ that a row kernel needs on either target: its loops' dimensions, its numbers, how they are combined."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from cuda_agent.llm.builtin.dtypes import COMPUTED, ITEM_BYTES, category
from cuda_agent.llm.builtin.emit import Emitted, emit, literal
from cuda_agent.llm.builtin.expr import Index, Load
from cuda_agent.llm.builtin.graph import numel
from cuda_agent.llm.builtin.loop_text import declared, step_text
from cuda_agent.llm.builtin.nest import Access
from cuda_agent.llm.builtin.rows import Pass, Rows, Sum


@dataclass(frozen=True)
class Loops:
    """The dimensions of one pass by their part: of the row, of the walk, and the innermost one."""

    row: tuple[int, ...]
    walk: tuple[int, ...]
    inner: int
    sizes: tuple[int, ...]

    @property
    def walk_count(self) -> int:
        """How many values `walk` takes together."""
        return numel([self.sizes[k] for k in self.walk])


def loops_of(one: Pass, across: bool) -> Loops:
    """Return the loops: along a row its last column dimension is innermost, across rows the last row dimension."""
    sizes, count = one.rows + one.columns, len(one.rows)
    dims = tuple(range(len(sizes)))
    if across:
        return Loops(dims[: count - 1], dims[count:], count - 1, sizes)
    return Loops(dims[:count], dims[count:-1], dims[-1], sizes)


def place_text(index: Index, loops: Loops, begin: str) -> str:
    """Say where the innermost loop starts."""
    outer = sorted((*loops.row, *loops.walk))
    terms = [str(index.offset)] if index.offset else []
    terms += [step_text(f"d{k}", index.strides[k]) for k in outer if index.strides[k]]
    if index.strides[loops.inner]:
        terms.append(step_text(begin, index.strides[loops.inner]))
    return " + ".join(terms) or "0"


def split_text(dims: Sequence[int], sizes: Sequence[int], flat: str, kind: str = "int64_t") -> list[str]:
    """Split a flat index into those of some dimensions."""
    lines, divisor = [], 1
    for k in reversed(dims):
        text = f"{flat} / {divisor}" if divisor > 1 else flat
        whole = k == dims[0]
        lines.append(f"[[maybe_unused]] const {kind} d{k} = {text};" if whole else
                     f"[[maybe_unused]] const {kind} d{k} = {text} % {sizes[k]};")  # fmt: skip
        divisor *= sizes[k]
    return lines


def emit_pass(one: Pass, rows: Rows, loops: Loops, memory: Callable[[Access], str], number: Callable[[str], str],
              begin: str, column: str) -> Emitted:  # fmt: skip
    """Write the pass's expressions; `memory` and `number` say how an element and an earlier number are read."""
    numbers = rows.numbers

    def load(node: Load) -> str:
        return number(node.source) if node.source in numbers else memory(rows.access(node))

    def position(index: Index) -> str:
        return f"({place_text(index, loops, begin)} + {column} * {index.strides[loops.inner]})"

    return emit(one.exprs, load, position)


def parameters(rows: Rows) -> list[str]:
    """Declare what a kernel reads and writes."""
    return declared(rows.reads, rows.outputs, {access.buffer.name for access in rows.accesses})


def arguments(rows: Rows) -> list[str]:
    """Name what a kernel reads and writes."""
    return [b.name for b in (*rows.reads, *rows.outputs)]


def used_numbers(one: Pass, rows: Rows) -> list[Sum]:
    """Return the numbers of earlier passes that a pass uses."""
    known = rows.numbers
    return [known[name] for name in dict.fromkeys(node.source for node in one.loads()) if name in known]


def identity(one: Sum) -> str:
    """Return what a reduction starts from."""
    kind = COMPUTED[one.dtype]
    if one.fn in ("sum", "prod"):
        return f"{kind}({0 if one.fn == 'sum' else 1})"
    if category(one.dtype) == 2:
        return f"{kind}({'-' if one.fn == 'max' else ''}INFINITY)"
    lowest, highest = integer_range(one.dtype)
    return literal(lowest if one.fn == "max" else highest, one.dtype)


def integer_range(dtype: str) -> tuple[int, int]:
    """Return the smallest and the largest number of an integer dtype."""
    bits = 8 * ITEM_BYTES[dtype]
    return (0, 2**bits - 1) if dtype.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def combined(one: Sum, first: str, second: str) -> str:
    """Combine two partial results; NaN comes through a maximum."""
    if one.fn in ("sum", "prod"):
        return f"{first} {'+' if one.fn == 'sum' else '*'} {second}"
    return f"op_{one.fn}imum({first}, {second})"


def needed_functions(rows: Rows) -> set[str]:
    """Return the functions that combining needs."""
    return {f"{one.fn}imum" for one in rows.numbers.values() if one.fn in ("max", "min")}


def total_type(n: Sum) -> str:
    """Return the C type in which blocks are put together."""
    return "double" if n.fn in ("sum", "prod") and category(n.dtype) == 2 else COMPUTED[n.dtype]


def strip(columns: int, most: int) -> int:
    """Return how many partial sums a walk over so many columns keeps: a power of two."""
    lanes = 1
    while lanes < most and lanes < columns:
        lanes *= 2
    return lanes


def reset(n: Sum) -> str:
    """Begin a block's partial sums anew."""
    return f"for (auto& partial : b_{n.name}) partial = {identity(n)};"


def fold(n: Sum, lanes: int) -> list[str]:
    """Put a block's partial sums together, pair by pair, and add them to the total."""
    name, total = f"b_{n.name}", f"t_{n.name}[0]"
    pair = combined(n, f"{name}[lane]", f"{name}[lane + {{half}}]")
    halves = [lanes >> k for k in range(1, lanes.bit_length())]
    lines = [f"for (int lane = 0; lane < {half}; ++lane) {name}[lane] = {pair.format(half=half)};" for half in halves]
    return [*lines, f"{total} = {combined(n, total, f'static_cast<{total_type(n)}>({name}[0])')};"]


def share_of(width: int, chunk: int) -> list[str]:
    """Say which of `width` columns belong to the block `rank` of several, `chunk` to each."""
    if width == 1:
        return ["constexpr I part_first = 0;", "const I part_last = rank == 0 ? 1 : 0;"]
    start = f"static_cast<I>(rank) * {chunk}"
    return [
        f"const I part_first = {start} < {width} ? {start} : {width};",
        f"const I part_last = part_first + {chunk} < {width} ? part_first + {chunk} : {width};",
    ]
