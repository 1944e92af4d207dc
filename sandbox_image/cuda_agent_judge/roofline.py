"""What an operator costs at least on this device: its bytes and arithmetic over the rates that were measured.

The floor by bytes is a bound only where every byte is needed (`Need.certain`); that by arithmetic never is, since
algebra can remove work. Times are in ms, rates in GB/s and TFLOP/s.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Arithmetic = Literal["fp32", "tf32", "half"]
Json = Any

# Operations that need every element of what they read, whatever its values are.
_NEEDS_ALL = frozenset(
    (
        *("add", "sub", "rsub", "mul", "div", "neg", "abs", "exp", "log", "log1p", "expm1", "sqrt", "rsqrt", "pow"),
        *("reciprocal", "square", "sin", "cos", "tanh", "sigmoid", "erf", "relu", "gelu", "silu", "elu", "selu"),
        *("leaky_relu", "hardtanh", "hardswish", "hardsigmoid", "softplus", "mish", "log_sigmoid_forward", "clamp"),
        *("clamp_min", "clamp_max", "maximum", "minimum", "sum", "mean", "amax", "amin", "max", "min", "argmax"),
        *("argmin", "var", "var_mean", "std", "norm", "linalg_vector_norm", "logsumexp", "_softmax", "_log_softmax"),
        *("native_layer_norm", "native_group_norm", "cumsum", "cumprod", "prod", "clone", "_to_copy", "copy"),
    )
)
_MOVES_ALL = frozenset(
    (
        *("view", "_unsafe_view", "reshape", "transpose", "t", "permute", "unsqueeze", "squeeze", "alias", "detach"),
        *("expand", "flatten", "_reshape_alias", "unflatten"),
    )
)


@dataclass(frozen=True)
class MemoryRate:
    """Rates in GB/s of moving `bytes` in one go; a copy counts what it reads and what it writes."""

    bytes: int
    read: float
    write: float
    copy: float

    @property
    def best(self) -> float:
        """The fastest of the three."""
        return max(self.read, self.write, self.copy)

    def best_of(self, other: "MemoryRate") -> "MemoryRate":
        """The higher rates of two measurements."""
        return MemoryRate(
            self.bytes, max(self.read, other.read), max(self.write, other.write), max(self.copy, other.copy)
        )


@dataclass(frozen=True)
class Ceilings:
    """What the device reaches, measured."""

    memory: tuple[MemoryRate, ...]
    """By size, smallest first: on `cpu` a size for each cache and memory, on `cuda` one that L2 holds, and memory."""
    tflops: Mapping[str, float] = field(default_factory=dict)
    """Of large matrix products, by kind of arithmetic."""
    cache_bytes: int = 0
    """On `cuda`, what L2 holds."""
    threads: int = 0
    """On `cpu`, how many threads torch uses."""

    def to_json(self) -> dict[str, Json]:
        """As a frame and a file carry it."""
        memory = [{"bytes": m.bytes, "read": m.read, "write": m.write, "copy": m.copy} for m in self.memory]
        return {
            "memory_gb_s": memory,
            "tflop_s": dict(self.tflops),
            "cache_bytes": self.cache_bytes,
            "threads": self.threads,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Json]) -> "Ceilings":
        """Read it back.

        Raises:
            ValueError, TypeError, KeyError, AttributeError: it is none.
        """
        memory = tuple(
            MemoryRate(int(entry["bytes"]), *(_rate(entry[key]) for key in ("read", "write", "copy")))
            for entry in raw["memory_gb_s"]
        )
        if not memory:
            raise ValueError("no rate of memory")
        tflops = {str(kind): _rate(rate) for kind, rate in raw["tflop_s"].items()}
        return cls(memory, tflops, int(raw["cache_bytes"]), int(raw["threads"]))

    def with_best_of(self, other: "Ceilings") -> "Ceilings":
        """The higher of two measurements of the same device: load only makes them lower."""
        known = {entry.bytes: entry for entry in other.memory}
        memory = tuple(entry.best_of(known.get(entry.bytes, entry)) for entry in self.memory)
        tflops = {kind: max(rate, other.tflops.get(kind, 0.0)) for kind, rate in self.tflops.items()}
        return Ceilings(memory, tflops, self.cache_bytes, self.threads)

    def rate_for(self, size: int) -> MemoryRate:
        """The rates for so many bytes: those of the largest size that was measured and is not larger."""
        fitting = [entry for entry in self.memory if entry.bytes <= size]
        return fitting[-1] if fitting else self.memory[0]


@dataclass(frozen=True)
class Need:
    """What one call has to do."""

    read_bytes: int
    written_bytes: int
    flops: Mapping[str, int] = field(default_factory=dict)
    """By kind of arithmetic."""
    certain: bool = False
    """Every byte is needed, whatever the values are: no cleverness can leave some of them out."""

    @property
    def bytes(self) -> int:
        """All that must move."""
        return self.read_bytes + self.written_bytes

    def to_json(self) -> dict[str, Json]:
        """As a frame carries it."""
        return {
            "read_bytes": self.read_bytes,
            "written_bytes": self.written_bytes,
            "flops": dict(self.flops),
            "certain": self.certain,
        }

    @classmethod
    def from_json(cls, raw: Mapping[str, Json]) -> "Need":
        """Read it back."""
        return cls(int(raw["read_bytes"]), int(raw["written_bytes"]), dict(raw["flops"]), bool(raw["certain"]))


@dataclass(frozen=True)
class Floor:
    """The least time of one call."""

    bytes_ms: float
    flops_ms: float
    gb_s: float
    """The rate that the bytes were divided by."""
    certain: bool

    @property
    def ms(self) -> float:
        """The larger of the two."""
        return max(self.bytes_ms, self.flops_ms)

    def to_json(self) -> dict[str, Json]:
        """As a report carries it."""
        return {"ms": self.ms, "bytes_ms": self.bytes_ms, "flops_ms": self.flops_ms, "certain": self.certain}


def need_of(analysis: Mapping[str, Json], *, precision: str) -> Need:
    """What a traced operator (docs/analysis.md) has to do; `precision` is the policy in force."""
    totals = analysis["totals"]
    written = int(totals.get("bytes_written", 0))
    flops: dict[str, int] = {}
    for node in analysis["nodes"]:
        if node["flops"]:
            kind = _arithmetic(node, precision)
            flops[kind] = flops.get(kind, 0) + int(node["flops"])
    return Need(int(totals["bytes_required"]) - written, written, flops, _is_certain(analysis))


def floor(need: Need, ceilings: Ceilings, target: str) -> Floor:
    """The floor with the rates that favour a kernel most: what is written may stay in the cache.

    On `cuda` the inputs of a timed call lie in memory. On `cpu` they were just written, so the size decides.
    """
    rate = ceilings.rate_for(need.bytes)
    bytes_ms = need.bytes / rate.best / 1e6
    if target == "cuda":
        # What is written can wait in the cache until the call is over.
        memory, cache = ceilings.memory[-1].best, max(entry.best for entry in ceilings.memory)
        moved = need.read_bytes + max(0, need.written_bytes - ceilings.cache_bytes)
        bytes_ms = max(moved / memory, need.bytes / cache) / 1e6
    rates = ceilings.tflops
    spent = [amount / rates[kind] / 1e9 for kind, amount in need.flops.items() if rates.get(kind, 0) > 0]
    gb_s = need.bytes / bytes_ms / 1e6 if bytes_ms > 0 else rate.best
    return Floor(bytes_ms, max(spent, default=0.0), gb_s, need.certain)


def _rate(value: Json) -> float:
    if not 0 < float(value) < 1e9:
        raise ValueError(f"{value!r} is no rate")
    return float(value)


def _arithmetic(node: Mapping[str, Json], precision: str) -> Arithmetic:
    """Matrix products run on tensor cores where the policy allows it; all else counts as fp32."""
    if name_of(node) not in _PRODUCTS:
        return "fp32"
    dtypes = {output["dtype"] for output in node["outputs"]}
    if dtypes & {"float16", "bfloat16"} or precision == "half":
        return "half"
    return "tf32" if precision == "tf32" else "fp32"


_PRODUCTS = frozenset(
    (
        *("mm", "addmm", "bmm", "baddbmm", "convolution", "_convolution", "cudnn_convolution", "mkldnn_convolution"),
        *("_scaled_dot_product_flash_attention", "_scaled_dot_product_efficient_attention"),
        *("_scaled_dot_product_flash_attention_for_cpu", "_scaled_dot_product_cudnn_attention"),
    )
)


def name_of(node: Mapping[str, Json]) -> str:
    """`mul` of aten.mul_.Tensor."""
    base = str(node["op"]).removeprefix("aten.").partition(".")[0]
    return base.removesuffix("_")


def _is_certain(analysis: Mapping[str, Json]) -> bool:
    """Whether the least bytes are least whatever is done: no values chosen, no part of a result left unused."""
    nodes = analysis["nodes"]
    if analysis["data_dependent"] or analysis["notes"] or not nodes:
        return False
    if _may_hold_masks(analysis):
        return False
    if any(name_of(node) not in _NEEDS_ALL | _MOVES_ALL or node["mutates"] for node in nodes):
        return False
    used = {ref for node in nodes for ref in _refs([*node["args"], *node["kwargs"].values()])}
    used |= {output["ref"] for output in analysis["outputs"] if "ref" in output}
    # Of several results one may go unused (the mean of a normalisation), but none may be all that is made.
    return all(any(output["id"] in used for output in node["outputs"]) for node in nodes)


def _may_hold_masks(analysis: Mapping[str, Json]) -> bool:
    """Whether zeros may stand in known places: what they are multiplied with need not be read."""
    constants = any(entry["values"] is None or len(entry["values"]) > 1 for entry in analysis["constants"])
    buffers = any(entry["kind"] == "buffer" and entry["shape"] not in ([], [1]) for entry in analysis["parameters"])
    tensors = [entry for entry in analysis["inputs"] if entry["kind"] == "tensor"]
    return constants or buffers or any(not entry["dtype"].startswith(("float", "bfloat")) for entry in tensors)


def _refs(values: Iterable[Json]) -> Iterable[str]:
    for value in values:
        if isinstance(value, dict) and "ref" in value:
            yield value["ref"]
        elif isinstance(value, list):
            yield from _refs(value)
