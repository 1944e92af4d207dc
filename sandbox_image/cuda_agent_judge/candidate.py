"""The candidate worker: the one process that runs a submission.

It never sees the operator's source, the seeds or the expected values. Whatever it answers is a claim; the judge
believes only the bytes in the landing buffer and its own clock.
"""

import base64
import contextlib
import io
import linecache
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import torch

from cuda_agent_judge import buffers, contract, extension, peeking, policy, recording, sampling, timeline
from cuda_agent_judge.cudart import Cudart
from cuda_agent_judge.defences import ALL, Defences
from cuda_agent_judge.memory import peak_of
from cuda_agent_judge.precision import apply_precision
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.red_zones import RedZones
from cuda_agent_judge.runner import Inputs, Runner
from cuda_agent_judge.slowing import slowed
from cuda_agent_judge.symbols import vendor_calls

_copy, _as_strided, _contiguous = torch.Tensor.copy_, torch.Tensor.as_strided, torch.Tensor.contiguous
_no_grad, _Tensor = torch.no_grad, torch.Tensor
_MAX_DETAILS = 6000


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """What a call does while no submission is loaded."""


class SubmissionFault(Exception):
    """The submission cannot be used; the message says what to change."""


@dataclass(frozen=True)
class _Shared:
    slot: torch.Tensor
    landing: torch.Tensor
    state: torch.Tensor
    keep: tuple[buffers.Area, ...]


class Candidate:
    """Answers the judge's orders; one method a kind of frame."""

    def __init__(self, defences: Defences = ALL) -> None:
        self._defences = defences
        self._cudart: Cudart | None = None
        self._own_modules: list[ModuleType] = []
        self._model: Callable[..., Any] = _nothing
        self._current: Any = None
        self._previous: Any = None
        self._zones: RedZones | None = None
        self._guarded = False
        self._handlers: dict[Kind, Callable[[dict[str, Any]], dict[str, Any]]] = {
            Kind.LOAD: self._load,
            Kind.PREPARE: self._prepare,
            Kind.GO: self._go,
            Kind.PROBE: self._go,
            Kind.LAND: self._land,
            Kind.AUDIT: self._audit,
            Kind.STATE: self._give_state,
            Kind.MEMORY: lambda body: {"bytes": peak_of(self._call, self._target)},
            Kind.RECORD: self._record,
        }

    def setup(self, body: dict[str, Any], fds: tuple[int, ...]) -> dict[str, Any]:
        """Open the shared buffers and make room for private inputs."""
        self._target = body["target"]
        self._held = body["output_lifetime"] == "held"
        if self._target == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
            self._cudart = Cudart()
        apply_precision(body["precision"])
        shared = body["shared"]
        rest = iter(fds)
        areas = tuple(
            buffers.open_area(ticket, next(rest) if ticket["kind"] == "memfd" else None, self._cudart)
            for ticket in shared["tickets"]
        )
        self._shared = _Shared(areas[0].bytes, areas[1].bytes, areas[2].bytes, areas)
        self._landing = buffers.Layout.from_json(shared["landing"])
        self._state_names = shared["state"]["names"]
        self._state_layout = buffers.Layout.from_json(shared["state"]["layout"])
        self._init = shared["init"]
        inputs = Inputs.from_json(shared["inputs"])
        self._runner = Runner(inputs, self._shared.slot, self._cudart, shared["sets"], whole_device=self._defences.sync)
        # So that the judge learns whether it can look into this process at all.
        self._probe = torch.zeros(1)
        return {"probe": self._probe.data_ptr()}

    def handle(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        """Carry out one order."""
        with _no_grad():
            return self._handlers[kind](body)

    def _load(self, body: dict[str, Any]) -> dict[str, Any]:
        library = body["library"]
        try:
            built = extension.install(Path(library) if library else None, body["style"])
        except (ImportError, OSError) as error:
            raise SubmissionFault(f"the built library does not load: {error}") from error
        self._own_modules = extension.watch_loading()
        if built is not None:
            self._own_modules.append(built)
        source = Path(body["source"])
        module = ModuleType("model_new")
        module.__file__ = str(source)
        sys.modules["model_new"] = module
        code = source.read_bytes()
        # Tracebacks show the submission's lines under the name its author knows.
        lines = code.decode("utf-8", "replace").splitlines(keepends=True)
        linecache.cache[source.name] = (len(code), None, lines, source.name)
        exec(compile(code, source.name, "exec", dont_inherit=True), module.__dict__)
        self._module = self._make_model(module)
        self._load_state(self._module)
        share = self._defences.slower.get("submission", 0.0)
        self._model = slowed(self._module, share, on_gpu=self._cudart is not None)
        return {}

    def _make_model(self, module: ModuleType) -> torch.nn.Module:
        kind = getattr(module, "ModelNew", None)
        if not (isinstance(kind, type) and issubclass(kind, torch.nn.Module)):
            raise SubmissionFault("model_new.py defines no class ModelNew(torch.nn.Module)")
        args, kwargs = torch.load(io.BytesIO(base64.b64decode(self._init)), weights_only=False)
        model: torch.nn.Module = kind(*args, **kwargs)
        return model.to(self._target).eval()

    def _load_state(self, model: torch.nn.Module) -> None:
        leaves = zip(self._state_names, self._state_layout.leaves, strict=True)
        state = {name: leaf.view(leaf.raw(self._shared.state)).clone() for name, leaf in leaves}
        try:
            model.load_state_dict(state, strict=True)
        except RuntimeError as error:
            raise SubmissionFault(
                "ModelNew does not take the reference's weights: its parameters and buffers must have the same names "
                f"and shapes as Model's ({' '.join(str(error).split())[:600]})"
            ) from error

    def _prepare(self, body: dict[str, Any]) -> dict[str, Any]:
        values = torch.load(io.BytesIO(base64.b64decode(body["values"])), weights_only=False)
        self._let_zones_go()
        if body.get("poison"):
            self._poison_free_memory()
        self._guarded = bool(body.get("red_zones"))
        self._values = values
        guarded = self._between_zones() if self._guarded else None
        self._runner.prepare(body["set"], values, later=bool(body.get("later")), instead=guarded)
        return {}

    def _between_zones(self) -> list[torch.Tensor] | None:
        self._zones = RedZones(self._finish)
        device = torch.device("cpu") if self._cudart is None else torch.device("cuda", torch.cuda.current_device())
        return self._zones.inputs(self._runner.leaves, device)

    def _poison_free_memory(self) -> None:
        """Fill a block of each output's size and let it go: what the allocator hands out next must not look right."""
        blocks = [torch.empty_like(leaf.raw(self._shared.landing)) for leaf in self._landing.leaves]
        for block in blocks:
            block.view(torch.uint8).fill_(0xA5)

    def _go(self, body: dict[str, Any]) -> dict[str, Any]:
        done = self._runner.go(self._model, body["spin_us"], body.get("calls", 1))
        self._current = done.output
        outputs = self._landed() if self._model is _nothing else contract.tensors(done.output)
        where = self._take_places(outputs)
        return {"claim_ns": done.claim_ns, "enqueue_ns": done.enqueue_ns, "where": where}

    def _take_places(self, outputs: list[torch.Tensor]) -> list[list[Any]]:
        """Read some places of the outputs that a call has returned; returns where the judge can do so itself."""
        plain = [t for t in outputs if type(t) is _Tensor and t.layout == torch.strided]
        self._taken = sampling.sample(plain)
        return peeking.where(plain) if self._cudart is None else []

    def _land(self, body: dict[str, Any]) -> dict[str, Any]:
        """Copy an output's bytes out; the current one is described and the inputs are given back as well."""
        if body["which"] == "previous":
            self._copy_out(self._previous)
            self._finish()
            return {}
        borrowed = {
            "inputs": self._runner.private,
            "weights": [*self._module.parameters(), *self._module.buffers()],
            "previous": contract.tensors(self._previous),
        }
        meta = contract.describe(self._current, borrowed)
        self._copy_out(self._current)
        meta["settled"] = sampling.settled(self._taken, self._landed())
        self._runner.give_back()
        self._finish()
        if self._guarded:
            self._guarded = False
            self._runner.prepare(0, self._values, later=True)
        self._previous, self._current = self._current if self._held else None, None
        borrowed.clear()
        self._let_zones_go()
        return meta

    def _let_zones_go(self) -> None:
        """Give back what lay between guard bands and nobody has any more: others need the room."""
        gone = self._zones is not None and self._zones.let_go()
        if gone and self._cudart is not None:
            # Only then: a timed call whose memory had to be asked for anew would be slower for it.
            torch.cuda.empty_cache()

    def _finish(self) -> None:
        """See that what was copied is there before the other side looks."""
        if self._cudart is not None:
            self._cudart.synchronize()

    def _copy_out(self, output: Any) -> None:
        for tensor, leaf in zip(contract.tensors(output), self._landing.leaves, strict=False):
            if tensor.layout != torch.strided:
                continue
            if tuple(tensor.shape) == leaf.shape and tensor.dtype == leaf.torch_dtype:
                _copy(leaf.view(leaf.raw(self._shared.landing)), tensor)

    def _landed(self) -> list[torch.Tensor]:
        return [leaf.view(leaf.raw(self._shared.landing)) for leaf in self._landing.leaves]

    def _call(self) -> Any:
        self._runner.refresh()
        args, kwargs = self._runner.arguments
        return self._model(*args, **kwargs)

    def _audit(self, body: dict[str, Any]) -> dict[str, Any]:
        """Look at one call from inside: which operations it uses, where they are limited, and where it writes."""
        zones = self._zones if self._guarded else None
        try:
            found = self._looked_at(zones, limited=body["limited"])
        except BaseException as error:
            if zones is None:
                raise
            # It may be that the submission is right and only cannot do with tensors like these.
            self._current = None
            self._runner.prepare(0, self._values, later=True)
            return {"unguarded": fault_of(error)["sentence"]}
        if zones is not None:
            found["out_of_bounds"] = [fault.sentence for fault in zones.faults(contract.tensors(self._current))]
        return found | {"where": self._take_places(contract.tensors(self._current))}

    def _looked_at(self, zones: RedZones | None, *, limited: bool) -> dict[str, Any]:
        def call() -> None:
            self._current = self._call()

        if limited:
            # The library that the judge built was looked at before; these the submission built while it was imported.
            built = [Path(file) for module in self._own_modules if (file := getattr(module, "__file__", None))]
            return policy.audit(call, self._own_modules, zones) | {"vendor": vendor_calls(built)}
        # What torch.compile has compiled would run as it was written.
        with contextlib.nullcontext() if zones is None or policy.compiled() else policy.Audit(zones):
            call()
        return {}

    def _record(self, body: dict[str, Any]) -> dict[str, Any]:
        """Say what one more call starts, and how long each part of it takes; or only make the profiler ready for it."""
        if body.get("only_start"):
            recording.record(lambda: None, self._target)
            return {}
        call = recording.marked(self._model)
        events = recording.record(lambda: self._runner.go(call, body["spin_us"]), self._target)
        if self._target == "cuda":
            return timeline.device_timeline(events).to_json()
        return timeline.host_timeline(events, policy.NAMESPACE).to_json()

    def _give_state(self, body: dict[str, Any]) -> dict[str, Any]:
        """Copy the weights as they are now back into the shared area."""
        state = self._module.state_dict()
        for name, leaf in zip(self._state_names, self._state_layout.leaves, strict=True):
            _copy(leaf.view(leaf.raw(self._shared.state)), state[name])
        self._finish()
        return {"compiled": policy.compiled()}


def fault_of(error: BaseException) -> dict[str, Any]:
    """Describe what a submission raised."""
    if isinstance(error, SubmissionFault):
        return {"sentence": str(error), "details": ""}
    frames = traceback.extract_tb(error.__traceback__)
    own = next((index for index, frame in enumerate(frames) if frame.filename == "model_new.py"), len(frames))
    lines = traceback.format_list(frames[own:]) + traceback.format_exception_only(error)
    said = " ".join(str(error).split())[:400]
    name = type(error).__name__
    return {"sentence": f"{name}: {said}" if said else name, "details": "".join(lines)[-_MAX_DETAILS:]}
