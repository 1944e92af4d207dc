"""Records the ATen operations of one eager forward as the graph that docs/analysis.md describes."""

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils.weak import WeakIdKeyDictionary

from cuda_agent_judge.costs import flops, name_of, read_bytes
from cuda_agent_judge.dispatching import Dispatching
from cuda_agent_judge.encoding import encode, encode_values, full_arguments
from cuda_agent_judge.trees import flatten, paths
from cuda_agent_judge.values import Geometry, Json, Memory, Value, Values, View

MAX_NODES = 4000
# Ways by which values leave PyTorch unseen by the dispatcher.
_LEAKS = ("numpy", "tolist", "__array__", "__dlpack__", "data_ptr")


@dataclass
class Graph:
    """What was recorded."""

    nodes: list[dict[str, Json]] = field(default_factory=list)
    constants: list[dict[str, Json]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    outputs: list[dict[str, Json]] = field(default_factory=list)
    returns: Json = None
    """The containers of the returned value, as `trees.Spec.to_json` says them."""
    flops: int = 0
    bytes_moved: int = 0
    bytes_required: int = 0
    bytes_written: int = 0
    """The part of the required ones that is written."""
    data_dependent: bool = False


class Recorder(Dispatching):  # type: ignore[no-untyped-call]
    """Records what runs inside its `with` block; tensors have to be named before with `name`."""

    def __init__(self) -> None:
        super().__init__()
        self.graph = Graph()
        self._known = WeakIdKeyDictionary()
        self._values = Values(self._imply, self.note)
        self._numbered = 0
        self._named: dict[int, tuple[Value, int]] = {}
        """Inputs and parameters with their size, by the identity of their value."""
        self._reads: dict[int, dict[Geometry, int]] = {}
        """Bytes read of them before they were written, by the view through which they were read."""

    def name(self, tensor: torch.Tensor, name: str) -> None:
        """Give an input or parameter its id; the first name of a tensor stays."""
        if tensor in self._known:
            return
        value = Value(name, Geometry.of(tensor), Memory())
        self._known[tensor] = value
        self._named[id(value)] = (value, value.geometry.touched_bytes)

    def note(self, text: str) -> None:
        """Say something about the graph, once."""
        if text not in self.graph.notes:
            self.graph.notes.append(text)

    def finish(self, result: Any) -> Graph:
        """Record what forward returned and add up the totals."""
        leaves, spec = flatten(result)
        self.graph.returns = spec.to_json()
        written: dict[str, int] = {}
        for path, leaf in zip(_paths(result), leaves, strict=True):
            if not isinstance(leaf, torch.Tensor):
                self.graph.outputs.append({"path": path, "value": encode(leaf, self._ref)})
                continue
            value = self._value(leaf)
            ref = self._values.current(value)
            self.graph.outputs.append({"path": path, "ref": ref})
            if not (id(value.root) in self._named and not value.memory.writes):
                written[ref] = value.geometry.touched_bytes
        for value, size in self._named.values():
            if value.memory.writes:
                written[value.id] = size
        read = sum(min(self._named[key][1], sum(reads.values())) for key, reads in self._reads.items())
        self.graph.bytes_written = sum(written.values())
        self.graph.bytes_required = read + self.graph.bytes_written
        return self.graph

    def see(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if name_of(func) == "lift_fresh" or func.namespace in ("prim", "profiler"):
            result = func(*args, **kwargs)
            if isinstance(result, torch.Tensor) and args and isinstance(args[0], torch.Tensor):
                self._known[result] = self._value(args[0])
            return result
        call = _Call.of(func, args, kwargs)
        # Before it runs: it may change what its arguments hold and even their shape.
        call.arguments = [self._value(tensor) for tensor in call.tensors]
        call.args = [encode(arg, self._ref) for arg in call.args]
        call.kwargs = {key: encode(arg, self._ref) for key, arg in call.kwargs.items()}
        if name_of(func).rstrip("_") == "as_strided":
            self._strided_from_root(call)
        result = func(*args, **kwargs)
        self._record(call, args, kwargs, result)
        return result

    def _record(self, call: "_Call", args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        returned = [leaf for leaf in flatten(result)[0] if isinstance(leaf, torch.Tensor)]
        # What is written and not returned gets its new id as a further output.
        written = [tensor for tensor, write in zip(call.tensors, call.writes, strict=True) if write]
        outputs = [*returned, *(t for t in written if not any(t is other for other in returned))]
        geometries = [Geometry.of(tensor) for tensor in outputs]
        parents = [call.parent_of(tensor) for tensor in outputs]
        view = bool(outputs) and all(parent is not None for parent in parents) and not written
        node, ids = self._add(call.op, call.args, call.kwargs, geometries)
        if not view:
            sizes = (max((v.geometry.numel for v in call.arguments), default=0), sum(g.numel for g in geometries))
            node["flops"] = flops(call.func, args, kwargs, result, sizes)
            node["bytes"] = self._count_bytes(call, sum(g.touched_bytes for g in geometries))
            self.graph.flops += node["flops"]
            self.graph.bytes_moved += node["bytes"]
        node["view"] = view
        if torch.Tag.data_dependent_output in call.func.tags:
            self.graph.data_dependent = True
        for position, tensor in enumerate(outputs):
            if any(tensor is other for other in written):
                node["mutates"] += self._values.written(self._value(tensor), ids[position])
                continue
            parent = parents[position]
            made = Value(ids[position], geometries[position], Memory())
            if parent is not None:
                made.memory = parent.memory
                made.seen = len(parent.memory.writes)
                # t_() and its like change no memory: to take the view anew is t().
                op = call.op.replace("_.", ".") if torch.Tag.inplace_view in call.func.tags else call.op
                made.view = View(parent, op, call.args, call.kwargs, position, geometries)
            self._known[tensor] = made

    def _strided_from_root(self, call: "_Call") -> None:
        """Let `as_strided`, which counts from the start of the storage, start from the tensor that owns it."""
        value = call.arguments[0]
        if call.args[3] is None:
            call.args[3] = value.geometry.offset
        call.arguments[0] = value.root
        call.args[0] = {"ref": self._values.current(value.root)}

    def _count_bytes(self, call: "_Call", written: int) -> int:
        touched = [value.geometry.touched_bytes for value in call.arguments]
        read = read_bytes(call.func, touched, written, call.writes)
        for value, size in zip(call.arguments, read, strict=True):
            root = value.root
            if size and id(root) in self._named and not root.memory.writes:
                reads = self._reads.setdefault(id(root), {})
                reads[value.geometry] = max(size, reads.get(value.geometry, 0))
        return sum(read) + written

    def _add(
        self, op: str, args: list[Json], kwargs: dict[str, Json], outputs: Sequence[Geometry]
    ) -> tuple[dict[str, Json], list[str]]:
        name = f"n{self._numbered}"
        self._numbered += 1
        ids = [name] if len(outputs) == 1 else [f"{name}.{index}" for index in range(len(outputs))]
        described = [{"id": id_, **geometry.to_json()} for id_, geometry in zip(ids, outputs, strict=True)]
        node: dict[str, Json] = {"id": name, "op": op, "args": args, "kwargs": kwargs, "outputs": described}
        node |= {"view": False, "implied": False, "mutates": [], "flops": 0, "bytes": 0}
        if len(self.graph.nodes) < MAX_NODES:
            self.graph.nodes.append(node)
        else:
            self.note(f"only the first {MAX_NODES} operations are listed; the totals count all")
        return node, ids

    def _imply(self, op: str, args: list[Json], kwargs: dict[str, Json], outputs: list[Geometry]) -> list[str]:
        node, ids = self._add(op, args, kwargs, outputs)
        node["implied"] = True
        return ids

    def _ref(self, tensor: torch.Tensor) -> str:
        return self._values.current(self._value(tensor))

    def _value(self, tensor: torch.Tensor) -> Value:
        known = self._known.get(tensor)  # type: ignore[no-untyped-call]
        if isinstance(known, Value):
            return known
        name = f"c{len(self.graph.constants)}"
        value = Value(name, Geometry.of(tensor), Memory())
        self._known[tensor] = value
        with torch._C.DisableTorchFunction():  # reading the values here is no leak of the operator's
            values = encode_values(tensor)
        self.graph.constants.append({"id": name, **value.geometry.to_json(), "values": values})
        return value


class LeakDetector(TorchFunctionMode):
    """Notices values that leave PyTorch through NumPy or a list, which the dispatcher does not see."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self._recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        name = getattr(func, "__name__", "")
        if name in _LEAKS:
            self._recorder.graph.data_dependent = True
            self._recorder.note(f"forward takes values out of PyTorch ({name}): what is computed there is not recorded")
        return func(*args, **(kwargs or {}))


@dataclass
class _Call:
    """One operation about to run."""

    func: Any
    op: str
    args: list[Any]
    kwargs: dict[str, Any]
    tensors: list[torch.Tensor]
    writes: list[bool]
    storages: list[int | None]
    arguments: list[Value] = field(default_factory=list)

    @classmethod
    def of(cls, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> "_Call":
        positional, keyword = full_arguments(func._schema, args, kwargs)
        tensors: list[torch.Tensor] = []
        writes: list[bool] = []
        moves_only = torch.Tag.inplace_view in func.tags
        for argument, value in _arguments(func._schema, positional, keyword):
            leaves = [leaf for leaf in flatten(value)[0] if isinstance(leaf, torch.Tensor)]
            write = argument.alias_info is not None and argument.alias_info.is_write and not moves_only
            tensors += leaves
            writes += [write] * len(leaves)
        return cls(func, str(func), positional, keyword, tensors, writes, [_storage(tensor) for tensor in tensors])

    def parent_of(self, tensor: torch.Tensor) -> Value | None:
        """The first argument where the result shares its memory."""
        storage = _storage(tensor)
        if storage is None or not self.storages:
            return None
        return self.arguments[self.storages.index(storage)] if storage in self.storages else None


def trace(model: torch.nn.Module, inputs: list[Any] | dict[str, Any], names: list[tuple[torch.Tensor, str]]) -> Graph:
    """Run the model once, on inputs that it may change, and record it. `names` are the ids of inputs and parameters."""
    recorder = Recorder()
    for tensor, name in names:
        recorder.name(tensor, name)
    with torch.no_grad(), warnings.catch_warnings(action="ignore"), LeakDetector(recorder), recorder:
        result = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    return recorder.finish(result)


def _arguments(schema: Any, positional: list[Any], keyword: dict[str, Any]) -> list[tuple[Any, Any]]:
    """Each argument of the schema with its value."""
    left = iter(positional)
    return [(argument, keyword[argument.name] if argument.kwarg_only else next(left)) for argument in schema.arguments]


def _storage(tensor: torch.Tensor) -> int | None:
    try:
        return int(tensor.untyped_storage()._cdata)
    except (NotImplementedError, RuntimeError):
        return None


def _paths(result: Any) -> list[list[str | int]]:
    return [list(path) for path in paths(result)]
