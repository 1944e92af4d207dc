"""Eager and torch.compile as timed sides of the reference worker."""

import contextlib
import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from cuda_agent_judge import expected, sampling
from cuda_agent_judge.appraisal import appraise_here
from cuda_agent_judge.compare import compare
from cuda_agent_judge.machine_cache import MachineCache
from cuda_agent_judge.memory import peak_of
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.runner import Runner
from cuda_agent_judge.session import Session
from cuda_agent_judge.slowing import slowed


class _Compiled(Exception):
    """In place of a first call."""


def _only_compiled(graph: Any, inputs: Any) -> Callable[..., Any]:
    """Compile as torch.compile does, into the same caches, and give out what does not run."""
    from torch._inductor.compile_fx import compile_fx

    compile_fx(graph, inputs)

    def run(*_args: Any) -> Any:
        raise _Compiled

    return run


def _nothing(*_args: Any, **_kwargs: Any) -> None:
    """A call that does nothing: what the protocol itself costs."""


class Baselines:
    """Calls the model as it is and compiled, on the same protocol as the candidate worker."""

    def __init__(
        self,
        model: torch.nn.Module,
        runner: Runner,
        session: Session,
        values: Callable[[], list[Any]],
        slower: Mapping[str, float],
        cache: MachineCache | None = None,
    ) -> None:
        """`values` gives the latest inputs that are no tensors; `slower` is of Defences."""
        self._cache = cache
        self._code: Path | None = None
        """Where Inductor puts its code, or finds it."""
        self._taken = False
        """Whether that was copied from the machine's cache."""
        self._model = model
        self._slower = slower
        self._runner = runner
        self._session = session
        self._values = values
        self._failed: str | None = None
        self._is_compiled = False
        self._calls: dict[str, Callable[..., Any]] = {"eager": model, "null": _nothing}
        self._appraised: dict[bool, dict[str, Any]] = {}
        self._peaks: dict[str, int] = {}
        self._kept: dict[str, Any] = {}
        self._side = "eager"
        self.twin: list[torch.Tensor] = []
        """The eager output of the latest inputs, row-major."""

    def handle(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        """Answer COMPILE, WARM, PREPARE, GO, PROBE, LAND, MEMORY or APPRAISE."""
        with torch.no_grad():
            match kind:
                case Kind.COMPILE:
                    return self._compile(body.get("fresh_in"))
                case Kind.WARM:
                    return self._warm()
                case Kind.PREPARE:
                    return self._prepare(body)
                case Kind.GO | Kind.PROBE:
                    return self._go(body)
                case Kind.LAND:
                    return self._land(body)
                case Kind.MEMORY:
                    return {"bytes": self._peak(body["side"])}
                case Kind.APPRAISE:
                    return self._appraise(operations=body["operations"], again=body["again"])
                case _:
                    raise ValueError(f"the reference worker was asked for {kind.name}")

    @property
    def is_warm(self) -> bool:
        """Whether torch.compile has been tried."""
        return self._failed is not None or "compile" in self._calls

    def let_go(self) -> None:
        """Forget the outputs of a judgement that ended."""
        self._kept, self._latest, self.twin = {}, None, []

    def _compile(self, fresh_in: str | None) -> dict[str, Any]:
        """Have everything compiled and nothing run, so that others may have the device meanwhile.

        With a folder to make a new cache in, nothing counts that was compiled before: where the submission has the
        judge's uid it could have been written to.
        """
        if (self._is_compiled or self.is_warm) and not fresh_in:
            return {}
        self._is_compiled = True
        self._failed = None
        self._calls.pop("compile", None)
        self._code = Path(tempfile.mkdtemp(dir=fresh_in) if fresh_in else self._session.cache_dir) / "inductor"
        self._taken = self._cache is not None and self._cache.take(self._code)
        self._compile_into(self._code)
        return {}

    def _compile_into(self, code: Path) -> None:
        os.environ["TORCHINDUCTOR_CACHE_DIR"] = str(code)
        os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
        # What cannot be compiled is said when it is to run; a graph behind a break is compiled then, too.
        with contextlib.suppress(Exception):
            args, kwargs = self._runner.arguments
            torch.compile(self._model, backend=_only_compiled)(*args, **kwargs)
        torch._dynamo.reset()

    def _warm(self) -> dict[str, Any]:
        """Run what was compiled, and hold its result against eager; says why when it cannot be a baseline."""
        if not self.is_warm:
            self._failed = self._refusal() or None
            if self._cache is not None and self._code is not None:
                self._settle(self._cache, self._code)
        notes = [] if self._cache is None else self._cache.notes
        return {"ok": self._failed is None, "reason": self._failed or "", "notes": notes}

    def _settle(self, cache: MachineCache, code: Path) -> None:
        """Keep what works; what was kept and does not (a disk that was full, a machine that lost power) is replaced."""
        broken = bool(self._failed) and self._taken
        if broken:
            shutil.rmtree(code, ignore_errors=True)
            torch._dynamo.reset()
            getattr(torch._inductor.utils, "clear_caches", lambda: None)()
            self._compile_into(code)
            self._failed = self._refusal() or None
        if not self._failed and (broken or not (self._taken or cache.has_code)):
            cache.put(code)
        if broken and not self._failed and not cache.writable:
            cache.notes.append(f"what the machine's cache has of this operator does not work: remove {cache.home}")
        self._taken = self._taken and not broken

    def _refusal(self) -> str:
        try:
            compiled = torch.compile(self._model)
            outputs = []
            for call in (compiled, self._model):
                self._runner.prepare(0, self._values(), now=True)
                args, kwargs = self._runner.arguments
                outputs.append([t.clone() for t in expected.tensors_of(call(*args, **kwargs))])
        except Exception as error:
            return f"{type(error).__name__}: {str(error).splitlines()[0][:300] if str(error) else ''}"
        pairs = zip(*outputs, strict=True)
        if not all(compare("", a.contiguous(), b.contiguous(), b.contiguous()).ok for a, b in pairs):
            return "its result differs from eager's"
        on_gpu = self._session.target == "cuda"
        self._calls["compile"] = slowed(compiled, self._slower.get("compile", 0.0), on_gpu=on_gpu)
        return ""

    def _peak(self, side: str) -> int:
        """Peak memory of one call, which is the same whatever is judged."""
        if side not in self._peaks:
            self._peaks[side] = peak_of(lambda: self._call(side), self._session.target)
        return self._peaks[side]

    def _call(self, side: str) -> Any:
        self._runner.prepare(0, self._values(), now=True)
        args, kwargs = self._runner.arguments
        return self._calls[side](*args, **kwargs)

    def _appraise(self, *, operations: bool, again: bool) -> dict[str, Any]:
        """Say what the operator costs here; with `operations` also where eager spends its time."""
        if operations not in self._appraised or again:
            self._runner.prepare(0, self._values(), now=True)
            args, kwargs = self._runner.arguments
            ready = self._ready if operations else None
            found = appraise_here(self._session, self._model, kwargs or args, ready, again=again, cache=self._cache)
            self._appraised = {operations: found}
        return self._appraised[operations]

    def _ready(self) -> Callable[[], Any]:
        self._runner.prepare(0, self._values(), now=True)
        args, kwargs = self._runner.arguments
        return lambda: self._model(*args, **kwargs)

    def _prepare(self, body: dict[str, Any]) -> dict[str, Any]:
        self._side = body["side"]
        self._runner.prepare(body["set"], self._values(), later=bool(body.get("later")))
        return {}

    def _go(self, body: dict[str, Any]) -> dict[str, Any]:
        done = self._runner.go(self._calls[self._side], body["spin_us"], body.get("calls", 1))
        if self._side == "null":
            # The candidate worker does the same after each call: it belongs to what the protocol costs.
            sampling.sample(self.twin)
        else:
            self._latest = done.output
        return {"claim_ns": done.claim_ns, "enqueue_ns": done.enqueue_ns}

    def _land(self, body: dict[str, Any]) -> dict[str, Any]:
        """Keep the output as the candidate's is kept, so that both sides' allocators see the same life times."""
        if self._side == "eager":
            self.twin = [t.contiguous() for t in expected.tensors_of(self._latest)]
        if self._session.output_lifetime == "held":
            self._kept[self._side] = self._latest
        self._latest = None
        return {}
