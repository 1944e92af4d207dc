"""The reference worker: owns the operator, its inputs and expected outputs, the baselines and the comparison.

It draws fresh inputs into the slot that the candidate worker reads, and compares the raw bytes the candidate worker
leaves in the landing buffer. Seeds come from the judge with every draw; expected values never leave this process.
"""

import base64
import dataclasses
import io
import itertools
import json
import random
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch

from cuda_agent_judge import buffers, compare, contract, drawing, expected, operator, peeking, trees
from cuda_agent_judge.analyze import analyze, describe_environment
from cuda_agent_judge.appraisal import extended
from cuda_agent_judge.baselines import Baselines
from cuda_agent_judge.cudart import Cudart
from cuda_agent_judge.drawn import Drawn
from cuda_agent_judge.precision import apply_precision
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.runner import Runner
from cuda_agent_judge.session import Session

_HELD_SHARE = 64
"""Several private input sets are kept where one takes at most this fraction of the memory."""
_FURTHER, _FURTHER_S = 14, 3.0
"""Draws, and seconds for them, after two answers that are alike."""
_HARD_DRAWS = 4


class Reference:
    """Answers the judge's questions; one method a kind of frame."""

    def __init__(self, session: Session, *, ipc: bool) -> None:
        self._session = session
        self._ipc = ipc
        self._cudart: Cudart | None = None
        self._handlers: dict[Kind, Callable[[dict[str, Any]], dict[str, Any]]] = {
            Kind.SETUP: self._setup,
            Kind.DRAW: self._draw,
            Kind.FILL: self._fill,
            Kind.PEEK: self._peek,
            Kind.EXPECT: self._expect,
            Kind.COMPARE: self._compare,
            Kind.HELD: self._held,
            Kind.SCREEN: self._screen,
            Kind.STATE: self._check_state,
            Kind.ANALYZE: self._analyze,
        }
        self.fds: tuple[int, ...] = ()
        self._wide: list[torch.Tensor] | None = None
        self._screened: list[list[torch.Tensor]] = []
        self._unchanged = True
        self._landed: list[int] | None = None
        self._peeked: list[peeking.Peeked] = []
        self._places = random.SystemRandom()

    def handle(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        """Answer one frame."""
        handler = self._handlers.get(kind)
        if handler is None:
            return self._baselines.handle(kind, body)
        with torch.no_grad():
            answer = handler(body)
        if self._cudart is not None:
            # The other worker acts on the answer: what was enqueued on shared memory must be done by then.
            self._cudart.synchronize()
        return answer

    def _setup(self, body: dict[str, Any]) -> dict[str, Any]:
        device = self._session.target
        if device == "cuda":
            torch.cuda.init()  # type: ignore[no-untyped-call]
            self._cudart = Cudart()
        apply_precision(self._session.effective_precision)
        self._operator = loaded = operator.load(self._session.operator_dir)
        self._model = loaded.make_model(device, body["seed"])
        self._drawn = Drawn(lambda seed: loaded.get_inputs(seed, device), body["seed"], self._cudart, ipc=self._ipc)
        expected.calibrate_norms(self._model, self._drawn.take_first())
        self._inputs = self._drawn.form
        sets = 3 if self._is_small(self._inputs.layout.size) else 1
        self._runner = Runner(self._inputs, self._drawn.master, self._cudart, sets)
        self._first_run()
        self._drawn.see_if_fixed(body["seed"] ^ 1)
        if self._signed:
            self._harden(body["seed"])
        self._state = dict(_state_tensors(self._model))
        return self._describe(sets, body)

    def _is_small(self, size: int) -> bool:
        if self._cudart is None:
            return size < 1 << 30
        return size * _HELD_SHARE < torch.cuda.get_device_properties(0).total_memory

    def _first_run(self) -> None:
        """Learn the output's form, which inputs the operator writes, and whether it is deterministic."""
        before = buffers.checksums(self._inputs.layout, self._drawn.master)
        self._runner.prepare(0, self._drawn.values, now=True)
        names, output = expected.recorded(lambda: self._run_operator())
        self._signed_allowed = drawing.may_be_signed(names)
        after = [buffers.checksum(raw) for raw in self._runner.private]
        self._written = [a != b for a, b in zip(before, after, strict=True)]
        borrowed = {"inputs": self._runner.private, "weights": [t for _, t in _state_tensors(self._model)]}
        self._form = contract.describe(output, borrowed)
        first = [t.clone() for t in expected.tensors_of(output)]
        self._native_answer = expected.heads(first)
        self._landing_layout = buffers.layout(first, dense=True)
        self._landing = buffers.create(self._landing_layout.size, self._cudart, ipc=self._ipc)
        self._output_names = _names(output)
        self._runner.prepare(0, self._drawn.values, now=True)
        second = expected.tensors_of(self._run_operator())
        pairs = zip(self._output_names, first, second, strict=True)
        if not all(compare.compare(name, b, a, a).ok for name, a, b in pairs):
            raise operator.OperatorFault(
                f"forward in {operator.FILE} gives different results on the same inputs; "
                "an operator must be deterministic to be judged"
            )

    @property
    def _signed(self) -> bool:
        return self._signed_allowed and self._drawn.may_be_signed

    def _harden(self, seed: int) -> None:
        """Draw hard values from now on where all native ones give the same answer, and those do not."""
        if not expected.degenerate(self._native_answer, self._further_answers(seed), has_inputs=True):
            return
        self._drawn.hardened = True
        first, *later = itertools.islice(self._further_answers(seed), _HARD_DRAWS)
        if not later or expected.degenerate(first, later, has_inputs=True):
            self._drawn.hardened = False

    def _run_operator(self) -> Any:
        args, kwargs = self._runner.arguments
        return self._operator.run(self._model, kwargs or args)

    def _describe(self, sets: int, body: dict[str, Any]) -> dict[str, Any]:
        state_layout = buffers.layout(self._state.values())
        self._state_area = buffers.create(state_layout.size, self._cudart, ipc=self._ipc)
        for leaf, tensor in zip(state_layout.leaves, self._state.values(), strict=True):
            leaf.raw(self._state_area.bytes).copy_(buffers.extent_of(tensor))
        self._state_layout = state_layout
        self._state_sums = buffers.checksums(state_layout, self._state_area.bytes)
        areas = [self._drawn.slot, self._landing, self._state_area]
        self.fds = tuple(area.fd for area in areas if area.fd is not None)
        self._baselines = Baselines(self._model, self._runner, self._session, lambda: self._drawn.values)
        return {
            "inputs": self._inputs.to_json(),
            "sets": sets,
            "form": self._form,
            "landing": self._landing_layout.to_json(),
            "state": {"names": list(self._state), "layout": state_layout.to_json()},
            "tickets": [area.ticket for area in areas],
            "environment": describe_environment(self._session.target),
            "init": _packed(self._operator.init_inputs()),
            "signed": self._signed,
            "hardened": self._drawn.hardened,
            "aliasing": any(leaf.get("aliases") for leaf in self._form["leaves"]),
        }

    def _draw(self, body: dict[str, Any]) -> dict[str, Any]:
        self._drawn.draw(body["variant"], body["seed"])
        if not body.get("hold"):
            self._fill({})
        return {"values": _packed(self._drawn.values)}

    def _fill(self, body: dict[str, Any]) -> dict[str, Any]:
        """Show what was drawn; by then a submission that is timed stands still."""
        self._drawn.fill()
        self._poison()
        self._peeked = []
        self._wide = None
        return {}

    def _peek(self, body: dict[str, Any]) -> dict[str, Any]:
        """Read some places of the output in the candidate worker, which stands still; "" when that went well."""
        leaves = self._landing_layout.leaves
        try:
            if "probe" in body:
                peeking.read(body["pid"], [int(body["probe"])], 4)
                return {"wrong": ""}
            self._peeked = peeking.peek(body["pid"], body["where"], leaves, self._places)
        except (ValueError, TypeError) as error:
            return {"wrong": f"it does not say where its output lies ({error})"}
        except OSError as error:
            return {"wrong": str(error)}
        return {"wrong": ""}

    def _poison(self) -> None:
        for leaf in self._landing_layout.leaves:
            buffers.poison(self._landing.bytes, leaf)
        if self._cudart is not None:
            # The candidate worker's stream knows nothing of this one's.
            self._cudart.synchronize()

    def _expect(self, body: dict[str, Any]) -> dict[str, Any]:
        """Compute the twin and, except where only that is asked for, the wide reference of the drawn inputs."""
        self._runner.prepare(0, self._drawn.values, now=True)
        wide_args: Any = None
        only_twin = body["variant"] == "twin"
        if not only_twin and self._fits_wide():
            args, kwargs = self._runner.arguments
            wide_args = expected.widen(kwargs or args)
        try:
            twins = [t.contiguous() for t in expected.tensors_of(self._run_operator())]
        except operator.OperatorFault as error:
            if body["variant"] in ("native", "twin"):
                raise
            return {"usable": False, "reason": str(error)}
        self._baselines.twin = [t.clone() for t in twins] if self._form_aliases() else twins
        self._wide = self._run_wide(wide_args) if wide_args is not None else None
        if only_twin:
            return {"usable": True}
        self._unchanged = self._unchanged and expected.are_inputs(twins, self._drawn.tensors())
        if body["variant"] == "native":
            if len(self._screened) < 2:
                self._screened.append(expected.heads(self._wide or twins))
            return {"usable": True, "wide": self._wide is not None}
        return {"usable": self._is_meaningful(twins), "wide": self._wide is not None}

    def _fits_wide(self) -> bool:
        return expected.fits_wide(self._inputs.layout.size + self._landing_layout.size, self._session.target)

    def _form_aliases(self) -> bool:
        return any(leaf.get("aliases") for leaf in self._form["leaves"])

    def _run_wide(self, args: Any) -> list[torch.Tensor] | None:
        if not hasattr(self, "_wide_model"):
            self._wide_model = expected.make_wide(self._model)
        wide = expected.run_wide(lambda given: operator.call(self._wide_model, given), args, self._baselines.twin)
        return None if wide is None else [t.contiguous() for t in wide]

    def _is_meaningful(self, twins: list[torch.Tensor]) -> bool:
        wide = self._wide or twins
        finite = all(bool(torch.isfinite(t).all()) for t in (*wide, *twins) if t.is_floating_point())
        errors = [compare.twin_error(w, t) for w, t in zip(wide, twins, strict=True)]
        return finite and all(error < compare.WELL_CONDITIONED for error in errors)

    def _compare(self, body: dict[str, Any]) -> dict[str, Any]:
        """Compare what landed; the inputs that came back must be those that went out."""
        outcomes = self._outcomes()
        if self._wide is None and self._fits_wide() and not all(outcome.ok for outcome in outcomes):
            # Only the twin was there to compare with: where its own rounding is large, the fp64 answer decides.
            self._runner.prepare(0, self._drawn.values, now=True)
            args, kwargs = self._runner.arguments
            self._wide = self._run_wide(expected.widen(kwargs or args))
            outcomes = self._outcomes()
        reasons = [outcome.reason for outcome in outcomes if not outcome.ok]
        if not peeking.still_there(self._peeked, self._landing_layout.leaves, self._landing.bytes):
            reasons.insert(0, "the output still changed after forward had returned; finish all work in forward")
        for index, (mine, its) in enumerate(zip(self._drawn.changed(), self._written, strict=True)):
            if mine and not its:
                reasons.insert(0, f"input {index} was written to; inputs must stay as they are")
        self._landed = buffers.checksums(self._landing_layout, self._landing.bytes)
        return {
            "ok": not reasons,
            "reason": reasons[0] if reasons else "",
            "errors": [dataclasses.asdict(outcome.error) for outcome in outcomes],
        }

    def _outcomes(self) -> list[compare.Outcome]:
        twins = self._baselines.twin
        wide = self._wide or twins
        landed = [leaf.view(leaf.raw(self._landing.bytes)) for leaf in self._landing_layout.leaves]
        return [
            compare.compare(name, got, truth, twin)
            for name, got, truth, twin in zip(self._output_names, landed, wide, twins, strict=True)
        ]

    def _held(self, body: dict[str, Any]) -> dict[str, Any]:
        """Whether the previous output, landed once more, still is what it was."""
        same = self._landed is None or self._landed == buffers.checksums(self._landing_layout, self._landing.bytes)
        self._poison()
        return {"ok": same}

    def _screen(self, body: dict[str, Any]) -> dict[str, Any]:
        """Whether the native answers seen so far could be told from a constant."""
        if len(self._screened) < 2:
            return {"degenerate": "", "unchanged": False}
        first, second = self._screened[:2]
        later = itertools.chain([second], self._further_answers(body["seed"]))
        has_inputs = bool(self._inputs.layout.leaves)
        return {"degenerate": expected.degenerate(first, later, has_inputs), "unchanged": self._unchanged}

    def _further_answers(self, seed: int) -> Iterator[list[torch.Tensor]]:
        end = time.monotonic() + _FURTHER_S
        for number in range(_FURTHER):
            if time.monotonic() > end:
                return
            self._drawn.draw("native", seed ^ number)
            self._runner.prepare(0, self._drawn.values, now=True)
            yield expected.heads(expected.tensors_of(self._run_operator()))

    def _check_state(self, body: dict[str, Any]) -> dict[str, Any]:
        """Whether the weights that came back are those that went out."""
        sums = buffers.checksums(self._state_layout, self._state_area.bytes)
        changed = [n for n, a, b in zip(self._state, self._state_sums, sums, strict=True) if a != b]
        return {"changed": changed}

    def _analyze(self, body: dict[str, Any]) -> dict[str, Any]:
        """Screen and trace the operator: a command of its own."""
        report = analyze(self._session.operator_dir, self._session.target)
        return {"report": json.loads(extended(report, self._session).to_json())}


def _names(output: Any) -> list[str]:
    leaves = trees.flatten(output)[0]
    paths = trees.paths(output)
    return [".".join(map(str, p)) for p, leaf in zip(paths, leaves, strict=True) if isinstance(leaf, torch.Tensor)]


def _state_tensors(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    return [(name, value) for name, value in model.state_dict().items() if isinstance(value, torch.Tensor)]


def _packed(value: Any) -> str:
    """Pickle for the candidate worker: the one direction in which that is safe."""
    out = io.BytesIO()
    try:
        torch.save(value, out)
    except Exception as error:
        raise operator.OperatorFault(
            f"an input of {operator.FILE} that is no tensor cannot be handed to another process "
            f"({type(error).__name__}); use numbers, strings, lists, dicts and tensors"
        ) from error
    return base64.b64encode(out.getvalue()).decode()
