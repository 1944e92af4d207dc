"""The judge's way of speaking to the two workers."""

import contextlib
import time
from collections.abc import Callable
from functools import partial
from typing import Any

from cuda_agent_judge.defences import ALL, Defences
from cuda_agent_judge.phases import Phases
from cuda_agent_judge.probe import LEAST_CALLS
from cuda_agent_judge.process_tree import end_process
from cuda_agent_judge.processes import JudgeEnds, JudgeFault
from cuda_agent_judge.protocol import Frame, Kind, PeerLate, PeerLost, ProtocolFault
from cuda_agent_judge.report import Status
from cuda_agent_judge.session import Session
from cuda_agent_judge.steps import Waiting
from cuda_agent_judge.turns import Turns

_REFERENCE_LIMIT_S = 900.0
_BY_A_FAULT_OF_OURS = "left with exit code 1"
"""An exception that nobody caught; the operator's are caught."""
_UNKNOWN = "closed its channel"
_SETUP_LIMIT_S = 300.0
_LEAVE_LIMIT_S = 10.0
_GRACE_S = 1.0


class Refused(Exception):
    """The judgement ends here with this status."""

    def __init__(self, status: Status, reason: str, details: str = "") -> None:
        super().__init__(reason)
        self.status: Status = status
        self.reason = reason
        self.details = details


class SharingFault(Exception):
    """The candidate worker cannot open the shared buffers; no submission has been loaded yet."""


class Workers:
    """The judge's side of both channels: an answer, or the reason why there is none."""

    def __init__(self, ends: JudgeEnds, session: Session, phases: Phases, defences: Defences = ALL) -> None:
        self._ends = ends
        self._phases = phases
        self._told = Kind.SETUP
        self._waiting = Waiting(session.operator_timeout_s)
        self._limit_s = session.call_timeout_s
        self._on_cpu = session.target == "cpu"
        self._can_look = False
        self._still = defences.still
        self.turns: Turns | None = None
        """Of the two workers, where one can be stopped while the other is timed."""
        self.unseen = ""
        """Why the latest output could not be read in place."""

    def tell_reference(self, kind: Kind, body: dict[str, Any]) -> None:
        """Order without waiting."""
        self._told = kind
        try:
            self._ends.reference.send(kind, body)
        except PeerLost as error:
            raise self._reference_lost() from error

    def hear_reference(self) -> Frame:
        """Wait for the reference worker.

        Raises:
            Refused: the operator cannot be judged.
            JudgeFault: the worker broke.
        """
        began = time.monotonic()
        limit_s = self._waiting.limit_s if self._told is Kind.GO else _REFERENCE_LIMIT_S
        try:
            while (frame := self._ends.reference.receive(began + limit_s - time.monotonic())).kind is Kind.STEP:
                self._waiting.hear(str(frame.body["name"]), float(frame.body["at"]))
        except PeerLate as error:
            end_process(self._ends.pids["reference"], _LEAVE_LIMIT_S)  # nobody is to have the device beside it
            raise Refused(
                "operator_error", f"{self._waiting.at(self._told)} did not end within {limit_s:g} s"
            ) from error
        except PeerLost as error:
            raise self._reference_lost() from error
        self._phases.part(self._told.name.lower(), time.monotonic() - began)
        if frame.kind is Kind.FAULT:
            raise Refused("operator_error", str(frame.body["sentence"]))
        return frame

    def ask_reference(
        self, kind: Kind, body: dict[str, Any] | None = None, sent: Callable[[], None] | None = None
    ) -> dict[str, Any]:
        """Order and wait; `sent` is called when the order is out."""
        self.tell_reference(kind, body or {})
        if sent is not None:
            sent()
        return self.hear_reference().body

    def setup_candidate(self, body: dict[str, Any], fds: tuple[int, ...]) -> None:
        """Hand the shared buffers over, before anything of the submission is loaded.

        Raises:
            SharingFault: they cannot be opened there.
            JudgeFault: the worker broke.
        """
        channel = self._ends.candidate
        try:
            channel.send(Kind.SETUP, body, fds)
            frame = channel.receive(_SETUP_LIMIT_S)
        except (PeerLost, PeerLate, ProtocolFault) as error:
            how = self._how_ended("candidate")
            raise JudgeFault(f"the candidate worker {how} before it loaded anything; its error is on stderr") from error
        if frame.kind is Kind.FAULT:
            raise SharingFault(str(frame.body["sentence"]))
        if self._on_cpu and self._still:
            pids = self._ends.pids
            self.turns = Turns(pids["reference"], pids["candidate"])
            probe = {"pid": pids["candidate"], "probe": frame.body["probe"]}
            self._can_look = not self.ask_reference(Kind.PEEK, probe)["wrong"]

    def go(self, body: dict[str, Any], *, submission: bool, calls: int = 1) -> tuple[dict[str, Any], int]:
        """Order calls of one side, which may stand still until then; returns its answer and the wall time in ns."""
        began = 0

        def sent() -> None:
            nonlocal began
            began = time.monotonic_ns()
            if self.turns is not None:
                (self.turns.wake_submission if submission else self.turns.wake_reference)()

        kind, body = (Kind.GO, body) if calls == 1 else (Kind.PROBE, {**body, "calls": calls})
        ask = (
            partial(self.ask_candidate, limit_s=min(calls, LEAST_CALLS) * self._limit_s)
            if submission
            else self.ask_reference
        )
        with contextlib.nullcontext() if self.turns is None else self.turns.placed(submission=submission):
            answer = ask(kind, body, sent)
            return answer, time.monotonic_ns() - began

    def look(self, answer: dict[str, Any]) -> None:
        """Have the reference worker read some of the output in place, while the submission stands still."""
        self.unseen = ""
        if self.turns is None or not self._can_look:
            return
        self.turns.stop_candidate()
        try:
            order = {"pid": self._ends.pids["candidate"], "where": answer.get("where")}
            self.unseen = str(self.ask_reference(Kind.PEEK, order)["wrong"])
        finally:
            self.turns.wake_submission()

    def ask_candidate(
        self,
        kind: Kind,
        body: dict[str, Any] | None = None,
        sent: Callable[[], None] | None = None,
        limit_s: float | None = None,
    ) -> dict[str, Any]:
        """Order the candidate worker and wait, `limit_s` instead of a call's time; `sent` is called when it is out.

        Raises:
            Refused: there is no proper answer; the status says whose kind of failure it is.
        """
        channel = self._ends.candidate
        limit_s = limit_s or self._limit_s
        asked = time.monotonic()
        try:
            channel.send(kind, body or {})
            if sent is not None:
                sent()
            frame = channel.receive(limit_s + _GRACE_S)
        except PeerLate as error:
            what = "importing the submission" if kind is Kind.LOAD else "a call of the submission"
            raise Refused("timeout", f"{what} did not end within {limit_s:g} s; it was killed") from error
        except ProtocolFault as error:
            raise Refused("tampering", f"the submission interfered with the judge: {error}") from error
        except PeerLost as error:
            how = self._how_ended("candidate")
            raise Refused("runtime_error", f"the submission's process {how} before it gave a result") from error
        self._phases.part(f"submission {kind.name.lower()}", time.monotonic() - asked)
        if frame.kind is Kind.FAULT:
            where = "the submission could not be loaded: " if kind is Kind.LOAD else "the submission failed: "
            said, details = str(frame.body.get("sentence")), str(frame.body.get("details"))
            raise Refused("runtime_error", where + said[:1200], details[:8000])
        if frame.kind is not Kind.ANSWER:
            raise Refused("tampering", "the submission interfered with the judge: an order came back as an answer")
        return frame.body

    def leave_device(self) -> None:
        """Have the submission's process end and the device's memory given back, before others get the device.

        What fails here is not said: the judgement is over, and whatever is left of it is ended soon after.
        """
        end_process(self._ends.pids["candidate"], _LEAVE_LIMIT_S)
        if not self._on_cpu:
            with contextlib.suppress(PeerLost, PeerLate, ProtocolFault):
                self._ends.reference.send(Kind.LEAVE, {})
                self._ends.reference.receive(_LEAVE_LIMIT_S)

    def _reference_lost(self) -> Exception:
        how = self._how_ended("reference")
        if sentence := self._waiting.overrun(how, _UNKNOWN):
            if how == _UNKNOWN:  # otherwise it has been waited for, and its number may be another's
                end_process(self._ends.pids["reference"], _LEAVE_LIMIT_S)
            return Refused("operator_error", sentence)
        if self._told is Kind.ANALYZE and how not in (_BY_A_FAULT_OF_OURS, _UNKNOWN):
            # Nothing but the operator ran there: what ends its own process cannot be judged.
            return Refused("operator_error", f"the operator's process {how} when it was run for the first time")
        return JudgeFault(f"the reference worker {how}; its error is on stderr")

    def _how_ended(self, role: str) -> str:
        end = time.monotonic() + 5
        with contextlib.suppress(PeerLate, PeerLost, ProtocolFault):
            while time.monotonic() < end:
                frame = self._ends.parent.receive(end - time.monotonic())
                if frame.body.get("role") == role:
                    return str(frame.body["how"])
        return _UNKNOWN
