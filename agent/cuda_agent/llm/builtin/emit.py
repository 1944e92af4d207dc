"""Expressions as C++ statements, each distinct one computed once."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from cuda_agent.llm.builtin.dtypes import COMPUTED, HALVES, category
from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Index, Load, Number, depth_first

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
COMPARED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


@dataclass
class Emitted:
    """Statements in order, the name that holds each result, and the functions they call."""

    statements: list[str] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    functions: set[str] = field(default_factory=set)


def emit(roots: Sequence[Expr], load: Callable[[Load], str], position: Callable[[Index], str]) -> Emitted:
    """Write `roots`; `load` and `position` say how an element and a position are read."""
    done = Emitted()
    names: dict[int, str] = {}
    known: dict[str, str] = {}
    for node in depth_first(list(roots)):
        if isinstance(node, Const):
            names[id(node)] = literal(node.value, node.dtype)
            continue
        text = _text(node, names, load, position, done.functions)
        key = f"{node.dtype}:{text}"
        if key not in known:
            known[key] = f"v{len(known)}"
            done.statements.append(f"const {COMPUTED[node.dtype]} {known[key]} = {text};")
        names[id(node)] = known[key]
    done.results = [names[id(root)] for root in roots]
    return done


def _text(
    node: Expr,
    names: dict[int, str],
    load: Callable[[Load], str],
    position: Callable[[Index], str],
    functions: set[str],
) -> str:
    if isinstance(node, Load):
        if node.dtype not in HALVES:
            return load(node)
        functions.add("memory")
        return f"load({load(node)})"
    if isinstance(node, Apply):
        return _call(node, [names[id(arg)] for arg in node.args], functions)
    assert not isinstance(node, Const)
    return position(node.index)


def _call(node: Apply, args: list[str], functions: set[str]) -> str:
    if node.fn == "convert":
        return _converted(node, args[0])
    if node.fn == "round_to":
        functions.add("memory")
        return f"round_to_{node.dtype}({args[0]})"
    if node.fn in INFIX and category(node.dtype) == 2:
        return f"{args[0]} {INFIX[node.fn]} {args[1]}"
    if node.fn in COMPARED:
        return f"{args[0]} {COMPARED[node.fn]} {args[1]}"
    if node.fn == "where":
        functions.add("pick")
        return f"pick<{COMPUTED[node.dtype]}>({', '.join(args)})"
    functions.add(node.fn)
    return f"op_{node.fn}({', '.join(args)})"


def _converted(node: Apply, arg: str) -> str:
    kind = COMPUTED[node.dtype]
    if node.dtype == "bool":
        return f"{arg} != 0"
    if node.args[0].dtype == "bool" and category(node.dtype) == 2:
        # By way of an integer of the same width: straight from a truth value it does not vectorise.
        arg = f"static_cast<{'int64_t' if kind == 'double' else 'int32_t'}>({arg})"
    return f"static_cast<{kind}>({arg})"


def literal(value: Number, dtype: str) -> str:
    """Return a number as C++ of the dtype's register type."""
    kind = COMPUTED[dtype]
    if dtype == "bool":
        return "true" if value else "false"
    if category(dtype) == 1:
        return _integer(int(value), kind)
    number = float(value)
    if math.isnan(number):
        return f"static_cast<{kind}>(NAN)"
    if math.isinf(number) or (kind == "float" and abs(number) > 3.4028234e38):
        return f"static_cast<{kind}>({'-' if number < 0 else ''}INFINITY)"
    text = repr(number)
    if kind == "float":
        text = text + "f" if abs(number) > 1e-37 or number == 0 else f"static_cast<float>({text})"
    return f"({text})" if number < 0 else text


def _integer(value: int, kind: str) -> str:
    if value == -(2**63):
        return "static_cast<int64_t>(-9223372036854775807LL - 1)"
    return f"static_cast<{kind}>({value}LL)"
