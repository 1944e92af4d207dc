"""The traced graph (docs/analysis.md) as typed values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from cuda_agent.llm.builtin.dtypes import ITEM_BYTES

Shape = tuple[int, ...]


class Unsupported(Exception):
    """No recipe covers this; the message is a phrase that ends "I cannot do ..."."""


@dataclass(frozen=True)
class TensorSpec:
    """Shape, strides (in elements) and dtype of one tensor."""

    id: str
    shape: Shape
    strides: tuple[int, ...]
    dtype: str

    @property
    def numel(self) -> int:
        """How many elements it has."""
        return numel(self.shape)

    @property
    def bytes(self) -> int:
        """The size of its elements, overlaps counted once each."""
        return self.numel * ITEM_BYTES[self.dtype]


@dataclass(frozen=True)
class Input:
    """One leaf of `get_inputs()`."""

    id: str
    path: tuple[int | str, ...]
    tensor: TensorSpec | None
    """None for a number, a string or None."""
    value: Any = None


@dataclass(frozen=True)
class State:
    """One entry of the state_dict."""

    name: str
    kind: str
    tensor: TensorSpec


@dataclass(frozen=True)
class Constant:
    """A tensor that is neither an input nor in the state_dict."""

    tensor: TensorSpec
    values: tuple[Any, ...] | None
    """Its elements in row-major order; None when there are too many."""


@dataclass(frozen=True)
class Node:
    """One ATen operation."""

    id: str
    op: str
    """Without "aten." and the overload: "mul"."""
    overload: str
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    outputs: tuple[TensorSpec, ...]
    mutates: tuple[str, ...] = ()
    """Ids that are no longer current after it; an id stands for one value for ever, so nothing follows from it here."""

    def arg(self, position: int, name: str = "", default: Any = None) -> Any:
        """Return an argument by position, or by name where it was given so."""
        if position < len(self.args):
            return self.args[position]
        return self.kwargs.get(name, default)

    @property
    def out(self) -> TensorSpec:
        """Its first output."""
        return self.outputs[0]

    @property
    def title(self) -> str:
        """As a person writes it: "aten.mul"."""
        return f"aten.{self.op}"


@dataclass(frozen=True)
class Output:
    """One leaf of the returned value."""

    path: tuple[int | str, ...]
    ref: str | None
    value: Any = None


@dataclass(frozen=True)
class Graph:
    """What an operator computes."""

    target: str
    device: Mapping[str, Any]
    inputs: tuple[Input, ...]
    states: tuple[State, ...]
    constants: tuple[Constant, ...]
    nodes: tuple[Node, ...]
    outputs: tuple[Output, ...]
    data_dependent: bool = False
    totals: Mapping[str, Any] = field(default_factory=dict)
    returns: Any = None
    """The containers of the returned value (docs/analysis.md); None for a single tensor, or where it is not known."""
    precision: str = "ieee"
    """The precision policy: anything but "ieee" allows TF32 in products."""

    def live_nodes(self) -> list[Node]:
        """Return the nodes that an output needs, in order."""
        needed = {output.ref for output in self.outputs}
        live: list[Node] = []
        for node in reversed(self.nodes):
            if any(out.id in needed for out in node.outputs):
                live.append(node)
                needed.update(references([*node.args, *node.kwargs.values()]))
        return live[::-1]


def numel(shape: Sequence[int]) -> int:
    """Return the product of the sizes."""
    count = 1
    for size in shape:
        count *= size
    return count


def references(value: Any) -> Iterator[str]:
    """Return the ids named anywhere inside arguments."""
    if isinstance(value, Mapping):
        if "ref" in value:
            yield value["ref"]
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references(item)


def plain(value: Any) -> Any:
    """Return an argument with its one-key objects for dtypes and odd floats made plain; references stay."""
    if isinstance(value, Mapping):
        if "dtype" in value:
            return value["dtype"]
        if "float" in value:
            return float(value["float"])
        if "device" in value:
            return value["device"]
        if "ref" in value:
            return {"ref": value["ref"]}
        return None
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def read_graph(analysis: Mapping[str, Any], precision: str = "ieee") -> Graph:
    """Build the graph from the analysis object, for a precision policy.

    Raises:
        Unsupported: it is not of the documented form, or has a dtype that no kernel here computes with.
    """
    try:
        return Graph(
            target=str(analysis.get("target", "cpu")),
            device=analysis.get("device") or {},
            inputs=tuple(_input(raw) for raw in analysis["inputs"]),
            states=tuple(
                State(raw["name"], raw.get("kind", "parameter"), _spec(raw)) for raw in analysis["parameters"]
            ),
            constants=tuple(_constant(raw) for raw in analysis["constants"]),
            nodes=tuple(_node(raw) for raw in analysis["nodes"]),
            outputs=tuple(
                Output(tuple(raw["path"]), raw.get("ref"), plain(raw.get("value"))) for raw in analysis["outputs"]
            ),
            data_dependent=bool(analysis.get("data_dependent")),
            totals=analysis.get("totals") or {},
            returns=analysis.get("returns"),
            precision=precision,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Unsupported(f"read the traced graph ({type(error).__name__}: {error})") from error


def _spec(raw: Mapping[str, Any]) -> TensorSpec:
    shape = tuple(int(size) for size in raw["shape"])
    strides = raw.get("strides")
    if strides is None:
        strides = dense_strides(shape)
    return TensorSpec(raw["id"], shape, tuple(int(stride) for stride in strides), str(raw["dtype"]))


def _input(raw: Mapping[str, Any]) -> Input:
    tensor = _spec(raw) if raw["kind"] == "tensor" else None
    return Input(raw["id"], tuple(raw["path"]), tensor, plain(raw.get("value")))


def _constant(raw: Mapping[str, Any]) -> Constant:
    values = raw.get("values")
    return Constant(_spec(raw), None if values is None else tuple(plain(value) for value in _flat(values)))


def _flat(values: Any) -> Iterator[Any]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield values


def _node(raw: Mapping[str, Any]) -> Node:
    namespace, _, rest = raw["op"].partition(".")
    base, _, overload = rest.partition(".")
    if namespace != "aten":
        base = raw["op"]
    return Node(
        id=raw["id"],
        op=base,
        overload=overload,
        args=tuple(plain(arg) for arg in raw["args"]),
        kwargs={key: plain(value) for key, value in (raw.get("kwargs") or {}).items()},
        outputs=tuple(_spec(out) for out in raw["outputs"]),
        mutates=tuple(raw.get("mutates") or ()),
    )


def dense_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))
