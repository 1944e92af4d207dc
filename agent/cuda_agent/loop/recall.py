"""Folds a trajectory into what the agent and its referee knew: at its end, or at the end of a turn that counts."""

import dataclasses
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from cuda_agent.errors import ConfigError
from cuda_agent.judging import Submission
from cuda_agent.llm.model import Message, Reply, ToolCall, Usage
from cuda_agent.llm.replay import reply_of
from cuda_agent.loop.calls import Repeats
from cuda_agent.loop.memory import Candidate, Counts, Memory, Turn, Verdicts
from cuda_agent.loop.referee import has_changed, is_refuting
from cuda_agent.trajectory import (
    CallChanged,
    Event,
    Judged,
    MessageAdded,
    Observation,
    Resumed,
    Rewound,
    SnapshotTaken,
    StageStarted,
    TurnEnded,
)
from cuda_agent_judge.report import Report

LoadSubmission = Callable[[str], Submission]
"""Returns the submission in a snapshot."""


@dataclass
class _Flight:
    """A turn that was begun."""

    reply: Reply
    observations: list[Observation] = field(default_factory=list)
    said_before: int = 0
    """Messages up to the last one that belongs to the reply and its answers, is a person's, or stays."""
    owed: bool = False


@dataclass
class _State:
    """A memory in the making."""

    turn: int = 0
    messages: list[Message] = field(default_factory=list)
    flight: _Flight | None = None
    counts: Counts = field(default_factory=Counts)
    verdicts: Verdicts = field(default_factory=lambda: Verdicts(0))
    snapshot: str = ""

    def copy(self) -> "_State":
        return dataclasses.replace(self, messages=list(self.messages))


class Recall:
    """What a trajectory tells, event after event."""

    def __init__(self, load: LoadSubmission, *, finals: int) -> None:
        """`finals` is how many final verdicts the loop may take at first."""
        self._load = load
        self._state = _State(verdicts=Verdicts(finals))
        self._ends: dict[int, _State] = {}
        self._usage: list[Usage] = []
        self._elapsed = _Elapsed()

    @property
    def turns(self) -> tuple[int, ...]:
        """The turns that one can go back to."""
        return tuple(sorted(self._ends))

    def memory(self) -> Memory:
        """Return what was known at the end of what was read."""
        self._interrupt()
        return self._memory(self._state)

    def memory_at(self, turn: int) -> Memory:
        """Return what was known at the end of a turn.

        Raises:
            ConfigError: that turn did not end, or was gone back over.
        """
        if turn not in self._ends:
            raise ConfigError(f"There is no turn {turn} to go to; the run has the turns {_ranges(self.turns)}.")
        return self._memory(self._ends[turn])

    def add(self, event: Event, when: datetime) -> None:
        """Take the next event."""
        self._elapsed.add(event, when)
        match event:
            case MessageAdded() | CallChanged() | Observation(by=""):
                self._converse(self._state, event)
            case TurnEnded():
                self._ended(self._state, event)
            case Rewound():
                self._rewound(event)
            case Resumed():
                self._interrupt()
            case _:
                self._note(self._state, event)

    def _interrupt(self) -> None:
        """Forget what the runtime said in what was not finished: it will be said again."""
        state = self._state
        if state.flight:
            del state.messages[state.flight.said_before :]
        elif not self._ends:
            state.messages.clear()  # the briefing

    def _converse(self, state: _State, event: MessageAdded | CallChanged | Observation) -> None:
        match event:
            case MessageAdded(role="assistant"):
                self._reply(state, event)
            case MessageAdded():
                state.messages.append(Message(event.role, event.content))
                if (event.by or event.stays) and state.flight:
                    state.flight.said_before = len(state.messages)
            case CallChanged():
                _change(state, event)
            case Observation():
                _observe(state, event)

    def _note(self, state: _State, event: Event) -> None:
        match event:
            case StageStarted(name="verdict") if state.flight:
                state.flight.owed = True
            case Judged():
                state.verdicts = _judged(state.verdicts, event, self._load, in_loop=state.flight is not None)
            case SnapshotTaken():
                state.snapshot = event.snapshot
            case _:
                pass

    def _reply(self, state: _State, event: MessageAdded) -> None:
        reply = reply_of(event)
        state.turn = event.turn
        state.messages.append(
            Message("assistant", reply.text, reply.tool_calls, reasoning=reply.reasoning, provider=reply.provider)
        )
        state.flight = _Flight(reply, said_before=len(state.messages))
        self._usage.append(reply.usage)

    def _ended(self, state: _State, event: TurnEnded) -> None:
        noted = state.verdicts.submission
        repeats = Repeats(state.counts.repeats)
        if event.submission and has_changed(noted, event.submission):
            repeats.reset()
        if state.flight:
            for call, observation in zip(state.flight.reply.tool_calls, state.flight.observations, strict=False):
                repeats.count(call, observation)
        loop = event.loop
        state.counts = Counts(loop.get("idle", 0), loop.get("polish_left"), repeats.counts)
        finals_left = loop.get("finals_left", state.verdicts.finals_left)
        state.verdicts = replace(
            state.verdicts,
            finals_left=finals_left,
            submission=event.submission or noted,
            slowest_s=float(loop.get("verdict_s", 0.0)),
        )
        state.turn, state.snapshot, state.flight = event.turn, event.snapshot, None
        self._ends[event.turn] = state.copy()

    def _rewound(self, event: Rewound) -> None:
        if event.turn not in self._ends:
            raise ConfigError(f"The trajectory goes back to turn {event.turn}, which it does not hold.")
        self._state = self._ends[event.turn].copy()
        self._ends = {turn: state for turn, state in self._ends.items() if turn <= event.turn}

    def _memory(self, state: _State) -> Memory:
        flight = state.flight
        return Memory(
            turn=state.turn,
            messages=tuple(state.messages),
            usage=tuple(self._usage),
            counts=state.counts,
            verdicts=state.verdicts,
            snapshot=state.snapshot,
            elapsed_s=self._elapsed.seconds,
            in_flight=Turn(state.turn, flight.reply, tuple(flight.observations)) if flight else None,
            owed_verdict=flight is not None and flight.owed,
        )


class _Elapsed:
    """Sums up how long the run took: from what ends of turns say, and from the clock behind the last of them."""

    def __init__(self) -> None:
        self._known = 0.0
        self._since: datetime | None = None
        self._now: datetime | None = None

    def add(self, event: Event, when: datetime) -> None:
        match event:
            case TurnEnded():
                self._known, self._since = float(event.loop.get("elapsed_s", 0.0)), when
            case Resumed():
                self._known, self._since = self.seconds, when
            case _ if self._since is None:
                self._since = when
        self._now = when

    @property
    def seconds(self) -> float:
        if self._since is None or self._now is None:
            return self._known
        return self._known + max(0.0, (self._now - self._since).total_seconds())


def recall(events: Sequence[Event], times: Sequence[datetime], load: LoadSubmission, *, finals: int) -> Recall:
    """Read a whole trajectory.

    Raises:
        ConfigError: it contradicts itself, or the snapshots do not hold what it names.
    """
    found = Recall(load, finals=finals)
    for event, when in zip(events, times, strict=True):
        found.add(event, when)
    return found


def _observe(state: _State, event: Observation) -> None:
    if state.flight and _is_answered(state.flight, event.id):
        state.flight.observations.pop()
        state.messages.pop()
    state.messages.append(Message("tool", event.text, tool_call_id=event.id))
    if state.flight:
        state.flight.observations.append(event)
        state.flight.said_before = len(state.messages)


def _is_answered(flight: _Flight, identity: str) -> bool:
    """Say whether the last answer was to this call: it was interrupted while that was shown. Ids may come twice."""
    answered = len(flight.observations)
    waiting = [call.id for call in flight.reply.tool_calls[answered : answered + 1]]
    return answered > 0 and flight.observations[-1].id == identity and waiting != [identity]


def _change(state: _State, event: CallChanged) -> None:
    """Put what ran in the place of the first unanswered call of this id; ids may be used twice."""
    if state.flight is None:
        return
    calls = list(state.flight.reply.tool_calls)
    answered = len(state.flight.observations)
    places = [place for place, call in enumerate(calls) if call.id == event.id and place >= answered]
    if not places:
        return
    raw = json.dumps(event.arguments, ensure_ascii=False)
    calls[places[0]] = ToolCall(event.id, event.name, event.arguments, raw)
    state.flight.reply = replace(state.flight.reply, tool_calls=tuple(calls))
    at = max(place for place, message in enumerate(state.messages) if message.role == "assistant")
    state.messages[at] = replace(state.messages[at], tool_calls=tuple(calls))


def _judged(verdicts: Verdicts, event: Judged, load: LoadSubmission, *, in_loop: bool) -> Verdicts:
    if not event.snapshot:
        return verdicts
    report = _report(event.report)
    submission = load(event.snapshot)
    sha = submission.sha256
    candidates = dict(verdicts.candidates)
    if report.final and is_refuting(report):
        candidates.pop(sha, None)
    elif report.passed:
        old = candidates.get(sha)
        candidates[sha] = (
            replace(old, report=report) if old else Candidate(submission, event.snapshot, event.turn, report)
        )
    if report.final:
        left = max(0, verdicts.finals_left - in_loop)
        return replace(verdicts, finals={**verdicts.finals, sha: report}, candidates=candidates, finals_left=left)
    return replace(verdicts, judged={**verdicts.judged, sha: report}, candidates=candidates)


def _report(fields: Mapping[str, Any]) -> Report:
    try:
        return Report.from_json(json.dumps(fields))
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigError(
            f"A verdict of this run cannot be read ({error!r}); use the version that wrote it."
        ) from error


def _ranges(turns: Sequence[int]) -> str:
    return f"{turns[0]} to {turns[-1]}" if turns else "none"
