"""From the traced graph to stages: loop nests over an output's index space, each element an expression."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from cuda_agent.llm.builtin.diagonal import PRODUCTS, diagonal_after, embed, identity, product, triangle
from cuda_agent.llm.builtin.dtypes import SUPPORTED
from cuda_agent.llm.builtin.expr import Apply, Const, Expr, Index, Load, NotAffine, Position, Value
from cuda_agent.llm.builtin.graph import Graph, Node, Shape, TensorSpec, Unsupported, dense_strides
from cuda_agent.llm.builtin.pointwise import convert, number
from cuda_agent.llm.builtin.pointwise_table import POINTWISE
from cuda_agent.llm.builtin.views import SPLITS, VIEWS, reshape, slice_, split, spread

FACTORIES = frozenset({"arange", "eye"})
UNWRITTEN = frozenset({"empty", "empty_like", "new_empty", "empty_strided"})


@dataclass(frozen=True)
class Buffer:
    """A tensor that a kernel reads or writes."""

    name: str
    spec: TensorSpec


@dataclass(frozen=True)
class Store:
    """One result of a stage."""

    buffer: Buffer
    expr: Expr


@dataclass(frozen=True)
class Stage:
    """One kernel: every store runs over the same index space."""

    shape: Shape
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class Plan:
    """What is to be written: kernels in order, and where each returned tensor comes from."""

    stages: tuple[Stage, ...]
    inputs: Mapping[str, Buffer]
    """By the id of an input, a parameter or a buffer of the module: what the kernels read."""
    results: Mapping[str, str]
    """By the id that an output refers to: the name of the buffer."""
    products: int
    """How many matrix products became a scaling."""
    operations: int


class Lowering:
    """Walks the graph once; values stay lazy until an output or a view that cannot be lazy needs them in memory."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.values: dict[str, Value] = {}
        self.inputs: dict[str, Buffer] = {}
        self.stages: list[Stage] = []
        self.products = 0

    def run(self) -> Plan:
        """Lower everything an output needs.

        Raises:
            Unsupported: naming what no recipe covers.
        """
        nodes = self.graph.live_nodes()
        self._check(nodes)
        self._leaves()
        for node in nodes:
            self._node(node)
        results = self._outputs()
        return Plan(tuple(self.stages), self.inputs, results, self.products, len(nodes))

    def _check(self, nodes: list[Node]) -> None:
        if self.graph.data_dependent:
            raise Unsupported("an operator whose Python reads values out of tensors")
        unknown = sorted({node.title for node in nodes if not known(node)})
        if unknown:
            raise Unsupported(", ".join(unknown))
        for node in nodes:
            for out in node.outputs:
                if out.dtype not in SUPPORTED:
                    raise Unsupported(f"tensors of dtype {out.dtype}")

    def _leaves(self) -> None:
        specs = [item.tensor for item in self.graph.inputs if item.tensor is not None]
        specs += [state.tensor for state in self.graph.states]
        for spec in specs:
            if spec.dtype in SUPPORTED:
                load = Load(spec.id, spec.dtype, Index(0, spec.strides))
                self.values[spec.id] = Value(spec.shape, load)
        for constant in self.graph.constants:
            if constant.values is not None and len(constant.values) == 1:
                expr = Const(constant.values[0], constant.tensor.dtype)
                self.values[constant.tensor.id] = Value(constant.tensor.shape, expr)

    def operand(self, arg: Any) -> Value:
        """Return the value that an argument stands for."""
        if isinstance(arg, Mapping):
            name = arg["ref"]
            if name not in self.values:
                raise Unsupported(f"the constant {name}, which is neither an input nor in the state_dict")
            return self.values[name]
        if isinstance(arg, bool | int | float):
            return number(arg)
        raise Unsupported(f"an argument of type {type(arg).__name__}")

    def _node(self, node: Node) -> None:
        op = node.op.rstrip("_") if not node.op.startswith("__") else node.op
        node = replace(node, op=op)
        if op in SPLITS:
            parts = self._lazily(lambda value: split(value, node), self.operand(node.arg(0)))
            self._keep(node, parts)
            return
        value = self._value(node)
        if value.shape != node.out.shape:
            raise Unsupported(f"{node.title} (a shape came out as {value.shape}, not {node.out.shape})")
        if value.dtype != node.out.dtype:
            value = Value(value.shape, convert(value.expr, node.out.dtype))
        self._keep(node, [value])

    def _keep(self, node: Node, values: list[Value]) -> None:
        for out, value in zip(node.outputs, values, strict=False):
            self.values[out.id] = value

    def _value(self, node: Node) -> Value:
        if node.op in VIEWS:
            return self._view(node)
        if node.op in PRODUCTS:
            self.products += 1
            return product(node, self.operand)
        if node.op in FACTORIES:
            return _factory(node)
        if node.op == "diag_embed":
            if node.arg(1, "offset", 0):
                raise Unsupported("diag_embed with an offset")
            rank = len(node.out.shape)
            return embed(
                self.operand(node.arg(0)), node.out.shape, node.arg(2, "dim1", rank - 2), node.arg(3, "dim2", -1)
            )
        if node.op in ("tril", "triu"):
            return triangle(self.operand(node.arg(0)), node)
        if node.op == "glu":
            return self._glu(node)
        if node.op == "repeat":
            wide = spread(self.operand(node.arg(0)), node.arg(1))
            return self._lazily(lambda value: reshape(value, list(node.out.shape)), wide)
        if node.op in UNWRITTEN:
            return Value(node.out.shape, convert(Const(0, "int64"), node.out.dtype))
        return self._pointwise(node)

    def _pointwise(self, node: Node) -> Value:
        build = POINTWISE[node.op]
        diagonal = diagonal_after(node, self.operand)
        return Value(node.out.shape, build(node, self.operand), diagonal=diagonal)

    def _view(self, node: Node) -> Value:
        value = self.operand(node.arg(0))
        if value.dtype not in SUPPORTED:
            raise Unsupported(f"tensors of dtype {value.dtype}")
        return self._lazily(lambda source: VIEWS[node.op](source, node), value)

    def _lazily[T](self, view: Callable[[Value], T], value: Value) -> T:
        try:
            return view(value)
        except NotAffine:
            return view(self._materialised(value))

    def _materialised(self, value: Value) -> Value:
        name = f"t{len(self.stages)}"
        spec = TensorSpec(name, value.shape, dense_strides(value.shape), value.dtype)
        self.stages.append(Stage(value.shape, (Store(Buffer(name, spec), value.expr),)))
        return Value(value.shape, Load(name, value.dtype, Index(0, spec.strides)))

    def _glu(self, node: Node) -> Value:
        value = self.operand(node.arg(0))
        dim = node.arg(1, "dim", -1)
        half = value.shape[dim] // 2
        first, gate = slice_(value, dim, 0, half), slice_(value, dim, half, 2 * half)
        return Value(first.shape, Apply("mul", (first.expr, Apply("sigmoid", (gate.expr,), value.dtype)), value.dtype))

    def _outputs(self) -> dict[str, str]:
        results: dict[str, str] = {}
        groups: dict[tuple[Shape, tuple[int, ...]], list[Store]] = {}
        specs = {out.id: out for node in self.graph.nodes for out in node.outputs}
        specs |= {item.tensor.id: item.tensor for item in self.graph.inputs if item.tensor}
        specs |= {state.tensor.id: state.tensor for state in self.graph.states}
        for output in self.graph.outputs:
            if output.ref is None or output.ref in results:
                continue
            value = self.operand({"ref": output.ref})
            name = f"out{len(results)}"
            spec = specs.get(output.ref)
            strides = output_strides(value.shape, spec.strides if spec else None)
            buffer = Buffer(name, TensorSpec(name, value.shape, strides, value.dtype))
            groups.setdefault((value.shape, strides), []).append(Store(buffer, value.expr))
            results[output.ref] = name
        if not results:
            raise Unsupported("an operator that returns no tensor")
        self.stages += [Stage(shape, tuple(stores)) for (shape, _), stores in groups.items()]
        self.inputs.update(self._read_buffers())
        return results

    def _read_buffers(self) -> dict[str, Buffer]:
        specs = [item.tensor for item in self.graph.inputs if item.tensor is not None]
        specs += [state.tensor for state in self.graph.states]
        return {spec.id: Buffer(spec.id, spec) for spec in specs}


def known(node: Node) -> bool:
    """Whether some rule here covers the operation."""
    op = node.op.rstrip("_") if not node.op.startswith("__") else node.op
    return (
        op in VIEWS
        or op in SPLITS
        or op in PRODUCTS
        or op in FACTORIES
        or op in POINTWISE
        or op in UNWRITTEN
        or op in ("diag_embed", "tril", "triu", "glu", "repeat")
    )


def output_strides(shape: Shape, strides: tuple[int, ...] | None) -> tuple[int, ...]:
    """Return the reference's strides where they are dense in some order of the dimensions, else row-major ones."""
    dense = dense_strides(shape)
    if strides is None or math.prod(shape) == 0:
        return dense
    step = 1
    for stride, size in sorted(zip(strides, shape, strict=True), key=lambda pair: (pair[0], pair[1])):
        if size == 1:
            continue
        if stride != step:
            return dense
        step *= size
    return strides


def _factory(node: Node) -> Value:
    shape, dtype = node.out.shape, node.out.dtype
    if node.op == "eye":
        return identity(shape, dtype)
    start, step = _arange_bounds(node)
    if isinstance(start, int) and isinstance(step, int):
        return Value(shape, convert(Position(Index(start, (step,))), dtype))
    position = convert(Position(Index(0, (1,))), dtype)
    scaled = Apply("mul", (position, convert(Const(float(step), "float64"), dtype)), dtype)
    return Value(shape, Apply("add", (convert(Const(float(start), "float64"), dtype), scaled), dtype))


def _arange_bounds(node: Node) -> tuple[Any, Any]:
    numbers = [arg for arg in node.args if isinstance(arg, int | float)]
    if node.overload == "" or node.overload == "default" or len(numbers) == 1:
        return 0, 1
    return numbers[0], numbers[2] if len(numbers) > 2 else 1
