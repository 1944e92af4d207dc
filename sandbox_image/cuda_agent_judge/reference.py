"""The reference worker: owns the operator, its inputs and expected outputs, the baselines and the comparison.

It draws fresh inputs into the slot that the candidate worker reads and compares the bytes left in the landing buffer.
Expected values never leave this process. What depends on no submission stands from one judgement to the next.
"""

import dataclasses
import itertools
import json
import os
import random
from collections.abc import Callable
from typing import Any

import torch

from cuda_agent_judge import ahead, compare, expected, machine_cache, peeking, slots
from cuda_agent_judge.ahead import Ahead, Answers
from cuda_agent_judge.analyze import analyze
from cuda_agent_judge.appraisal import extended
from cuda_agent_judge.battery import AUDITED, IN_LOOP, TIMED
from cuda_agent_judge.cudart import Cudart
from cuda_agent_judge.defences import ALL, Defences
from cuda_agent_judge.lending import Lent
from cuda_agent_judge.memory import is_out_of_memory
from cuda_agent_judge.phases import Phases
from cuda_agent_judge.protocol import Kind
from cuda_agent_judge.session import Session
from cuda_agent_judge.standing import Standing, packed
from cuda_agent_judge.steps import Steps

_TIMED_AHEAD = 7
_LEAVE_MUCH = frozenset({Kind.COMPILE, Kind.WARM, Kind.MEMORY, Kind.SCREEN, Kind.APPRAISE})
"""What frees much that the submission may need. Nothing between timed calls: they would have to ask for it again."""


class Reference:
    """Answers the judge's questions; one method a kind of frame."""

    def __init__(self, session: Session, defences: Defences = ALL, *, alone: bool = False) -> None:
        """With `alone` there is no submission as long as it lives."""
        self._session = session
        self._cache, self._unused = machine_cache.opened(session, alone=alone)
        self._defences = defences
        self._handlers: dict[Kind, Callable[[dict[str, Any]], dict[str, Any]]] = {
            Kind.OPEN: self._open,
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
            Kind.LEAVE: self._leave,
        }
        self.fds: tuple[int, ...] = ()
        self.steps = Steps(session.operator_timeout_s)
        self._standing: Standing | None = None
        self._ahead: Ahead | None = None
        self._lent: Lent | None = None
        self._wide: list[torch.Tensor] | None = None
        self._known: Answers | None = None
        self._screened: list[list[torch.Tensor]] = []
        self._degenerate: str | None = None
        self._unchanged = True
        self._landed: list[int] | None = None
        self._peeked: list[peeking.Peeked] = []
        self._places = random.SystemRandom()

    def handle(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        """Answer one frame."""
        if kind in (Kind.GO, Kind.PROBE):
            return self._answer(kind, body)
        answer: dict[str, Any] | None = None
        try:
            answer = self._answer(kind, body)
        except Exception as error:
            if not is_out_of_memory(error):
                raise
        if answer is None:  # what the failed attempt made is gone by now
            torch.cuda.empty_cache()
            answer = self._answer(kind, body)
        if kind in _LEAVE_MUCH and self._standing is not None:
            self._standing.trim()
        return answer

    def _answer(self, kind: Kind, body: dict[str, Any]) -> dict[str, Any]:
        handler = self._handlers.get(kind)
        if handler is None:
            return self._stands.baselines.handle(kind, body)
        with torch.no_grad():
            answer = handler(body)
        if self._standing is not None and self._standing.cudart is not None:
            # The other worker acts on the answer: what was enqueued on shared memory must be done by then.
            self._standing.cudart.synchronize()
        return answer

    @property
    def compiles_next(self) -> bool:
        """Whether the next piece of work ahead is the baseline."""
        return self._standing is not None and not self._standing.baselines.is_warm

    def _open(self, body: dict[str, Any]) -> dict[str, Any]:
        """Do what takes time and no turn on the device: a context there."""
        if self._session.target == "cuda" and self._standing is None:
            torch.cuda.init()  # type: ignore[no-untyped-call]
            Cudart().synchronize()
        return {}

    def work_ahead(self) -> bool:
        """Do a piece of what the next judgement will ask for; False when all is done, or others have the device.

        On `cuda` nothing of it touches the GPU, which may be another's at the moment.
        """
        if self._session.target == "cuda":
            import torch._inductor.compile_fx  # noqa: F401  # takes seconds, and only the baseline needs it

            return False
        if self._standing is not None and not self._standing.baselines.is_warm:
            self._standing.baselines.handle(Kind.COMPILE, {})
        with slots.if_free("cpu", self._session.locks) as free:
            return free and self._work_on()

    def _work_on(self) -> bool:
        if self._standing is None:
            self._stand_up(int.from_bytes(os.urandom(8), "big") >> 1, Phases())
            return True
        if self._ahead is None:
            self._ahead = Ahead(self._standing, (*IN_LOOP, AUDITED), _TIMED_AHEAD)
        if not self._standing.baselines.is_warm:
            self._standing.baselines.handle(Kind.WARM, {})
            return True
        return self._ahead.step()

    def rest(self) -> None:
        """Forget a judgement that has ended, but for the areas: its submission's process may still have them open."""
        self._wide, self._known, self._landed, self._peeked = None, None, None, []
        if self._ahead is not None:
            self._ahead.drop_battery()
        if self._standing is not None:
            self._standing.baselines.let_go()

    def _leave(self, body: dict[str, Any]) -> dict[str, Any]:
        self.rest()
        self.let_go()
        return {}

    def let_go(self) -> None:
        """Give the areas back, when all processes of the submission are gone."""
        if self._lent is not None:
            self._lent.close()
            self._lent = None
        if self._standing is not None:
            self._standing.give_memory()
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            torch.cuda.empty_cache()

    @property
    def _stands(self) -> Standing:
        if self._standing is None:
            raise ValueError("the reference worker was asked before it was set up")
        return self._standing

    @property
    def _areas(self) -> Lent:
        if self._lent is None:
            raise ValueError("the reference worker was asked before it was set up")
        return self._lent

    def _stand_up(self, seed: int, phases: Phases) -> Standing:
        if self._standing is None:
            with torch.no_grad():
                self._standing = Standing(self._session, seed, phases, self._defences, self.steps, self._cache)
        return self._standing

    def _setup(self, body: dict[str, Any]) -> dict[str, Any]:
        phases = Phases()
        stands = self._stand_up(body["seed"], phases)
        with phases.stage("areas"):
            stands.take_memory()
            stands.trim()
            self._lent = lent = Lent(
                stands.inputs.layout, stands.learnt.layout, stands.state.values(), stands.cudart, ipc=body["ipc"]
            )
        self.fds = tuple(area.fd for area in lent.areas if area.fd is not None)
        return stands.described | {
            "notes": [self._unused] if self._unused else [],
            "state": {"names": list(stands.state), "layout": lent.state_layout.to_json()},
            "tickets": [area.ticket for area in lent.areas],
            "phases": phases.so_far(),
        }

    def _draw(self, body: dict[str, Any]) -> dict[str, Any]:
        variant, drawn = body["variant"], self._stands.drawn
        kind = body.get("prepared")
        prepared = self._ahead.take(kind) if self._ahead is not None and kind else None
        self._known = prepared.answers if prepared is not None else None
        if prepared is None:
            drawn.draw(variant, body["seed"])
        if not body.get("hold"):
            self._fill({})
        return {"values": packed(drawn.values)}

    def _fill(self, body: dict[str, Any]) -> dict[str, Any]:
        """Show what was drawn; by then a submission that is timed stands still."""
        self._areas.show(self._stands.drawn.master)
        self._poison()
        self._peeked = []
        self._wide = None
        return {}

    def _peek(self, body: dict[str, Any]) -> dict[str, Any]:
        """Read some places of the output in the candidate worker, which stands still; "" when that went well."""
        try:
            if "probe" in body:
                peeking.read(body["pid"], [int(body["probe"])], 4)
                return {"wrong": ""}
            self._peeked = peeking.peek(body["pid"], body["where"], self._stands.learnt.layout.leaves, self._places)
        except (ValueError, TypeError) as error:
            return {"wrong": f"it does not say where its output lies ({error})"}
        except OSError as error:
            return {"wrong": str(error)}
        return {"wrong": ""}

    def _expect(self, body: dict[str, Any]) -> dict[str, Any]:
        """Have the twin and, except where only that is asked for, the wide reference of the drawn inputs."""
        variant = body["variant"]
        timed = variant == "twin"
        answers = self._known or ahead.answer(self._stands, TIMED if timed else variant)
        self._known = None
        if answers.reason:
            return {"usable": False, "reason": answers.reason}
        self._stands.baselines.twin = answers.twins
        self._wide = answers.wide
        if timed:
            return {"usable": True}
        self._unchanged = self._unchanged and expected.are_inputs(answers.twins, self._stands.drawn.tensors())
        if variant == "native" and len(self._screened) < 2:
            self._screened.append(expected.heads(answers.wide or answers.twins))
        return {"usable": answers.usable, "wide": answers.wide is not None}

    def _compare(self, body: dict[str, Any]) -> dict[str, Any]:
        """Compare what landed; the inputs that came back must be those that went out."""
        stands = self._stands
        outcomes = self._outcomes()
        if self._wide is None and stands.fits_wide and not all(outcome.ok for outcome in outcomes):
            # Only the twin was there to compare with: where its own rounding is large, the fp64 answer decides.
            stands.runner.prepare(0, stands.drawn.values, now=True)
            args, kwargs = stands.runner.arguments
            self._wide = stands.run_wide(expected.widen(kwargs or args), stands.baselines.twin)
            outcomes = self._outcomes()
        reasons = [outcome.reason for outcome in outcomes if not outcome.ok]
        if not peeking.still_there(self._peeked, stands.learnt.layout.leaves, self._areas.landing):
            reasons.insert(0, "the output still changed after forward had returned; finish all work in forward")
        for index, (mine, its) in enumerate(zip(self._areas.changed_inputs(), stands.learnt.written, strict=True)):
            if mine and not its and self._defences.untouched:
                reasons.insert(0, f"input {index} was written to; inputs must stay as they are")
        self._landed = self._areas.landed_sums()
        return {
            "ok": not reasons,
            "reason": reasons[0] if reasons else "",
            "errors": [dataclasses.asdict(outcome.error) for outcome in outcomes],
        }

    def _outcomes(self) -> list[compare.Outcome]:
        stands = self._stands
        twins = stands.baselines.twin
        rows = zip(stands.learnt.names, self._areas.landed(), self._wide or twins, twins, strict=True)
        return [compare.compare(name, got, truth, twin) for name, got, truth, twin in rows]

    def _held(self, body: dict[str, Any]) -> dict[str, Any]:
        """Whether the previous output, landed once more, still is what it was."""
        same = self._landed is None or self._landed == self._areas.landed_sums()
        self._poison()
        return {"ok": same}

    def _poison(self) -> None:
        if self._defences.poison:
            self._areas.poison()

    def _screen(self, body: dict[str, Any]) -> dict[str, Any]:
        """Whether the native answers seen so far could be told from a constant."""
        if len(self._screened) < 2:
            return {"degenerate": "", "unchanged": False}
        if self._degenerate is None:
            first, second = self._screened[:2]
            later = itertools.chain([second], self._stands.answers(body["seed"]))
            self._degenerate = expected.degenerate(first, later, has_inputs=bool(self._stands.inputs.layout.leaves))
        return {"degenerate": self._degenerate, "unchanged": self._unchanged}

    def _check_state(self, body: dict[str, Any]) -> dict[str, Any]:
        """Whether the weights that came back are those that went out."""
        changed = self._areas.changed_state()
        return {"changed": [name for name, it in zip(self._stands.state, changed, strict=True) if it]}

    def _analyze(self, body: dict[str, Any]) -> dict[str, Any]:
        """Screen and trace the operator: a command of its own."""
        found = analyze(self._session.operator_dir, self._session.target, self.steps)
        report = extended(found, self._session, self.steps, self._cache)
        return {"report": json.loads(report.to_json())}
