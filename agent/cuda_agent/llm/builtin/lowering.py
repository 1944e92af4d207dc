"""From the traced graph to stages: loop nests over an output's index space, each element an expression."""

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from cuda_agent.llm.builtin.dense import Dense, factors_of, is_narrow, pulled_sum, with_rest
from cuda_agent.llm.builtin.diagonal import PRODUCTS, diagonal_after, embed, product, triangle
from cuda_agent.llm.builtin.dtypes import HALVES, SUPPORTED
from cuda_agent.llm.builtin.expr import Apply, Const, Index, Load, NotAffine, Value, map_index
from cuda_agent.llm.builtin.factories import FACTORIES, factory
from cuda_agent.llm.builtin.gemm import Products
from cuda_agent.llm.builtin.graph import (
    Graph,
    Node,
    Shape,
    TensorSpec,
    Unsupported,
    dense_strides,
    numel,
    output_strides,
)
from cuda_agent.llm.builtin.losses import LOSSES
from cuda_agent.llm.builtin.norms import NORMS
from cuda_agent.llm.builtin.pointwise import convert, number
from cuda_agent.llm.builtin.pointwise_table import POINTWISE
from cuda_agent.llm.builtin.pools import POOLS
from cuda_agent.llm.builtin.reductions import REDUCTIONS, Reductions, apply
from cuda_agent.llm.builtin.stage import Buffer, Plan, Reduce, ReduceFn, Stage, Step, Store
from cuda_agent.llm.builtin.views import SPLITS, VIEWS, reshape, slice_, split, spread, squeeze, swap, unsqueeze

TABLES = REDUCTIONS | NORMS | LOSSES | POOLS
UNWRITTEN = frozenset({"empty", "empty_like", "new_empty", "empty_strided"})


class Lowering:
    """Walks the graph once; values stay lazy until an output or a view that cannot be lazy needs them in memory."""

    def __init__(self, graph: Graph):
        self.graph = graph
        self.values: dict[str, Value] = {}
        self.inputs: dict[str, Buffer] = {}
        self.stages: list[Step] = []
        self.products = 0
        self.dense: dict[str, Dense] = {}
        self.multiply = Products(graph.target, graph.precision, graph.libraries != "own", self.stages)
        self.reductions = Reductions(self.operand, self.reduce)

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
        wide = frozenset(
            stage.buffer.name for stage in self.stages if isinstance(stage, Reduce) and self._is_wide(stage)
        )
        return Plan(tuple(self.stages), self.inputs, results, self.products, len(nodes), wide)

    def _is_wide(self, stage: Reduce) -> bool:
        """Whether a row kernel would have to do the work of a product."""
        dense = self.dense.get(stage.buffer.name)
        return dense is not None and not dense.is_narrow

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
        self._keep(node, self._values(node))

    def _keep(self, node: Node, values: list[Value]) -> None:
        for out, value in zip(node.outputs, values, strict=False):
            if value.shape != out.shape:
                value = self._regrouped(value, out.shape, node)
            if value.dtype != out.dtype:
                value = replace(value, expr=convert(value.expr, out.dtype), diagonal=None)
            self.values[out.id] = value

    def _regrouped(self, value: Value, shape: Shape, node: Node) -> Value:
        """Bring what was computed group by group into the shape of the channels."""
        if node.op != "native_group_norm" or numel(value.shape) != numel(shape):
            raise Unsupported(f"{node.title} (a shape came out as {value.shape}, not {shape})")
        return self._lazily(lambda source: reshape(source, list(shape)), value)

    def _values(self, node: Node) -> list[Value]:
        """Return the node's outputs."""
        if node.op in TABLES:
            return TABLES[node.op](self.reductions, node)
        if node.op == "native_batch_norm" and node.arg(5):
            return TABLES["instance_norm"](self.reductions, node)
        return [self._value(node)]

    def reduce(self, fn: ReduceFn, value: Value, dims: Sequence[int]) -> Value:
        """Reduce over dimensions, which stay with size 1.

        Raises:
            Unsupported: over nothing, or of truth values.
        """
        inner = tuple(value.shape[dim] for dim in dims)
        if value.dtype == "bool" or numel(inner) == 0:
            raise Unsupported("a reduction over nothing or of truth values")
        if numel(inner) == 1:
            return Value(value.shape, value.expr)
        for dim in dims if fn == "sum" and self.dense else ():
            pulled = pulled_sum(value, dim, self.dense, self.reduce)
            if pulled is not None:
                return self.reduce("sum", pulled, [other for other in dims if other != dim])
        kept = [dim for dim in range(len(value.shape)) if dim not in dims]
        order = [*kept, *dims]
        stored = "float32" if value.dtype in HALVES else value.dtype
        body = map_index(value.expr, lambda index: Index(index.offset, tuple(index.strides[dim] for dim in order)))
        outer = tuple(value.shape[dim] for dim in kept)
        name = f"r{len(self.stages)}"
        spec = TensorSpec(name, outer, dense_strides(outer), stored)
        self.stages.append(Reduce(outer, inner, fn, convert(body, stored), Buffer(name, spec)))
        steps = dict(zip(kept, spec.strides, strict=True))
        place = Index(0, tuple(steps.get(dim, 0) for dim in range(len(value.shape))))
        shape = tuple(1 if dim in dims else size for dim, size in enumerate(value.shape))
        return Value(shape, convert(Load(name, stored, place), value.dtype))

    def _value(self, node: Node) -> Value:
        if node.op in VIEWS:
            return self._view(node)
        if node.op in PRODUCTS:
            return self._product(node)
        if node.op in FACTORIES:
            return factory(node)
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

    def _product(self, node: Node) -> Value:
        if node.op not in ("dot", "vdot"):
            with contextlib.suppress(Unsupported):
                scaled = product(node, self.operand)
                self.products += 1
                return scaled
        left, right = (Value(v.shape, convert(v.expr, node.out.dtype)) for v in factors_of(node, self.operand))
        (batch, rows, depth), columns = left.shape, right.shape[2]
        terms = apply("mul", unsqueeze(left, 2), unsqueeze(swap(right, 1, 2), 1))
        if terms.shape != (batch, rows, columns, depth):
            raise Unsupported(f"{node.title} of these shapes")
        made = None if is_narrow(left, right) else self.multiply.make(left, right)
        if made is None:
            made = squeeze(self.reduce("sum", terms, [3]), [3])
        load = made.expr.args[0] if isinstance(made.expr, Apply) and made.expr.fn == "convert" else made.expr
        if isinstance(load, Load) and load.source.startswith("r"):
            self.dense[load.source] = Dense(load.source, left, right)
        return with_rest(node, self.operand, made)

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
        self.stages.append(Stage(value.shape, (Store(Buffer(name, spec), value.expr),), spec.strides))
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
            spec = specs.get(output.ref)
            strides = output_strides(value.shape, spec.strides if spec else None)
            written = self._already_written(value, strides)
            if written is not None and written not in results.values():
                results[output.ref] = written
                continue
            name = f"out{len(results)}"
            buffer = Buffer(name, TensorSpec(name, value.shape, strides, value.dtype))
            groups.setdefault((value.shape, strides), []).append(Store(buffer, value.expr))
            results[output.ref] = name
        if not results:
            raise Unsupported("an operator that returns no tensor")
        self.stages += [Stage(shape, tuple(stores), strides) for (shape, strides), stores in groups.items()]
        self.inputs.update(self._read_buffers())
        return results

    def _already_written(self, value: Value, strides: tuple[int, ...]) -> str | None:
        """Let an output be the buffer that holds it already; returns its name."""
        expr, shape = value.expr, value.shape
        dense = dense_strides(shape)
        if not isinstance(expr, Load) or not expr.source.startswith("t") or strides != dense:
            return None
        steps = zip(shape, expr.index.strides, dense, strict=True)
        if expr.index.offset or any(size != 1 and step != wanted for size, step, wanted in steps):
            return None
        for place, stage in enumerate(self.stages):
            if isinstance(stage, Stage) and stage.stores[0].buffer.name == expr.source:
                if stage.stores[0].buffer.spec.numel != numel(shape):
                    return None
                buffer = Buffer(expr.source, TensorSpec(expr.source, shape, dense, expr.dtype))
                self.stages[place] = replace(stage, stores=(replace(stage.stores[0], buffer=buffer),))
                return expr.source
        return None

    def _read_buffers(self) -> dict[str, Buffer]:
        specs = [item.tensor for item in self.graph.inputs if item.tensor is not None]
        specs += [state.tensor for state in self.graph.states]
        return {spec.id: Buffer(spec.id, spec) for spec in specs}


def known(node: Node) -> bool:
    """Whether some rule here covers the operation."""
    op = node.op.rstrip("_") if not node.op.startswith("__") else node.op
    others = ("diag_embed", "tril", "triu", "glu", "repeat")
    return any(op in one for one in (VIEWS, SPLITS, PRODUCTS, FACTORIES, POINTWISE, UNWRITTEN, TABLES, others))
