"""Pieces of C++ that a stage needs on either target: parameters, indices, positions."""

from collections.abc import Callable, Container, Iterable

from cuda_agent.llm.builtin.dtypes import HALVES, STORED
from cuda_agent.llm.builtin.emit import Emitted, emit
from cuda_agent.llm.builtin.expr import Index, Load
from cuda_agent.llm.builtin.nest import Access, Nest
from cuda_agent.llm.builtin.stage import Buffer


def declared(reads: Iterable[Buffer], outputs: Iterable[Buffer], accessed: Container[str]) -> list[str]:
    """Declare a launcher's parameters: what is read, then what is written.

    An output that is also `accessed` may be read by another name, so it is no `__restrict__` pointer.
    """
    params = [f"const {STORED[b.spec.dtype]}* __restrict__ {b.name}" for b in reads]
    for b in outputs:
        alone = "" if b.name in accessed else "__restrict__ "
        params.append(f"{STORED[b.spec.dtype]}* {alone}{b.name}")
    return params


def nest_parameters(nest: Nest) -> list[str]:
    """Declare the parameters of a nest's launcher."""
    return declared(nest.reads, nest.outputs, {access.buffer.name for access in nest.accesses})


def emit_nest(
    nest: Nest, element: Callable[[Access], str], outer: list[int], column: str, begin: str = "begin"
) -> Emitted:
    """Write the stage's expressions; `element` says how an access is read, `begin` and `column` where a row stands."""

    def load(node: Load) -> str:
        return element(nest.access(node))

    def position(index: Index) -> str:
        return f"({offset_text(index, outer, begin)} + {column} * {index.strides[-1]})"

    return emit(nest.exprs, load, position)


def offset_text(index: Index, outer: list[int], begin: str) -> str:
    """Say where the innermost loop starts, as C++ over the outer indices."""
    terms = [str(index.offset)] if index.offset else []
    terms += [step_text(f"d{k}", index.strides[k]) for k in outer if index.strides[k]]
    if index.strides[-1]:
        terms.append(step_text(begin, index.strides[-1]))
    return " + ".join(terms) or "0"


def step_text(index: str, stride: int) -> str:
    """Write one term of an affine map."""
    return index if stride == 1 else f"{index} * {stride}"


def decompose(nest: Nest, outer: list[int], flat: str, index: str = "int64_t") -> list[str]:
    """Split a flat index into those of the outer loops that some access needs."""
    lines = []
    divisor = 1
    for k in reversed(outer):
        text = f"{flat} / {divisor}" if divisor > 1 else flat
        lines.append(
            f"const {index} d{k} = {text};" if k == outer[0] else f"const {index} d{k} = {text} % {nest.sizes[k]};"
        )
        divisor *= nest.sizes[k]
    return lines


def output_steps(nest: Nest) -> list[int]:
    """Compute the strides of an output over the loops."""
    steps = [1] * len(nest.sizes)
    for k in range(len(nest.sizes) - 2, -1, -1):
        steps[k] = steps[k + 1] * nest.sizes[k + 1]
    return steps


def stored(dtype: str, text: str) -> str:
    """Write a register's value as it goes to memory."""
    return f"store_{dtype}({text})" if dtype in HALVES else text
