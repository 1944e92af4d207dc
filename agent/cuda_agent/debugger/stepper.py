"""Drives a run from above: it stops before tool calls, at breakpoints, at verdicts, and when a person interrupts.

A move is: ask the model, or answer the pending call; a turn whose last call is answered is settled at once.
"""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from cuda_agent.debugger.breakpoints import Breakpoints
from cuda_agent.debugger.happenings import Course
from cuda_agent.debugger.watch import Watch
from cuda_agent.llm.model import Reply, ToolCall
from cuda_agent.loop.agent import Agent
from cuda_agent.loop.memory import Turn
from cuda_agent.loop.person import Person
from cuda_agent.loop.stop import Stop, StopReason
from cuda_agent.trajectory import Event, Judged, Observation

INTERRUPTED = "interrupted"


class Goal(StrEnum):
    """How far to go; a breakpoint, an interrupt or the end of the run stops earlier."""

    STEP = "step"
    NEXT = "next"
    """To the next verdict."""
    CONTINUE = "continue"


@dataclass(frozen=True)
class Halt:
    """Why the run stands still."""

    why: str = ""
    """"" after a step that went as it was asked for."""


@dataclass
class _Open:
    """The turn in progress."""

    reply: Reply
    answers: list[Observation]

    @property
    def pending(self) -> ToolCall | None:
        calls = self.reply.tool_calls
        return calls[len(self.answers)] if len(self.answers) < len(calls) else None


class Stepper:
    """One run, taken one move at a time."""

    def __init__(self, agent: Agent, person: Person, watch: Watch, breakpoints: Breakpoints, course: Course) -> None:
        self.agent = agent
        self.breakpoints = breakpoints
        self.end: Stop | None = None
        """Why the run is over; nothing was finished yet, and a person may still go another way."""
        self.reply: Reply | None = None
        """The model's last reply, as it will run."""
        self._person = person
        self._watch = watch
        self._course = course
        self._open: _Open | None = None
        self._unheard: list[str] = []
        self._asked_in_vain = False
        self._caught_up = False
        self._course.remember(watch.verdicts())

    @property
    def turn(self) -> int:
        """The turn in progress, or the last one; a request without a reply was no turn."""
        return self.agent.turn - self._asked_in_vain

    @property
    def pending(self) -> ToolCall | None:
        """The call that runs next; None between two turns."""
        return self._open.pending if self._open else None

    @property
    def place(self) -> tuple[int, int]:
        """Which call of its reply is pending (from 1), and of how many."""
        return (len(self._open.answers) + 1, len(self._open.reply.tool_calls)) if self._open else (0, 0)

    @property
    def answers(self) -> Sequence[Observation]:
        """The answers to the calls of the open turn."""
        return tuple(self._open.answers) if self._open else ()

    @property
    def waiting(self) -> Sequence[str]:
        """What was said and waits for the pending calls to be answered."""
        return tuple(self._unheard)

    def advance(self, goal: Goal, *, turn: int | None = None) -> Halt:
        """Move on until the goal is reached, or turn `turn` begins."""
        self._reconsider()
        if self.end is None and not self._caught_up:
            halt = self._after(self._catch_up(), Goal.CONTINUE, None)
            if halt is not None:
                return halt
        while self.end is None:
            halt = self._after(self._move(), goal, turn)
            if halt is not None:
                return halt
        return Halt()

    def skip(self, reason: str) -> Halt | None:
        """Answer the pending call without running it; the model sees the reason."""
        open_turn, call = self._must_be_pending()
        open_turn.answers.append(self.agent.decline(call, f"a person skipped this call: {reason}"))
        return self._after(self._settled(), Goal.STEP, None) if self.pending is None else Halt()

    def change(self, name: str, arguments: dict[str, object]) -> ToolCall:
        """Replace the pending call; the model is told once the calls of its reply are answered."""
        open_turn, _ = self._must_be_pending()
        place = len(open_turn.answers)
        call = self._person.change(place, name, arguments)
        calls = open_turn.reply.tool_calls
        open_turn.reply = dataclasses.replace(
            open_turn.reply, tool_calls=(*calls[:place], call, *calls[place + 1 :]), finish_reason="tool_calls"
        )
        self.reply = open_turn.reply
        told = f"A person changed your call {call.id!r} ({name}) before it ran; the conversation shows it as it ran."
        if told not in self._unheard:
            self._unheard.append(told)
        return call

    def say(self, text: str) -> bool:
        """Tell the model something; returns whether it is in the conversation already."""
        self._unheard.append(text)
        self._allow_more()
        if self.pending is not None:
            return False
        self._deliver()
        return True

    def take_over(self) -> None:
        """Something was changed that may let a run that is over go on."""
        self._allow_more()

    def moved(self) -> None:
        """The run was taken to another turn: nothing is pending."""
        self._open, self.reply, self.end = None, None, None
        self._asked_in_vain, self._caught_up = False, True
        self._unheard.clear()
        self._watch.reports(self._watch.news())
        self._course.remember(self._watch.verdicts())

    def finish(self) -> StopReason | None:
        """End a run that is over; None where it is not."""
        return self.agent.finish(self.end) if self.end else None

    def _must_be_pending(self) -> tuple[_Open, ToolCall]:
        if self._open is None or self._open.pending is None:
            raise LookupError("no call is pending")
        return self._open, self._open.pending

    def _reconsider(self) -> None:
        """A limit that was raised no longer ends the run."""
        if self.end and self.end.reason in (StopReason.MAX_TURNS, StopReason.TIME_LIMIT):
            self.end = self.agent.exhausted()

    def _allow_more(self) -> None:
        if self.end and self.end.reason is not StopReason.SANDBOX_LOST:
            self.end = None

    def _move(self) -> bool:
        """Make one move; False where a person interrupted it."""
        if self._open is None:
            return self._ask()
        completed = self._open.pending is None or self._answer(self._open, self._open.pending)
        settled = self._settled() if self.pending is None else True
        return completed and settled

    def _catch_up(self) -> bool:
        """Settle what an interrupted process left; False where a person interrupted that."""
        self._caught_up = True
        done = self._do(lambda: (self.agent.catch_up(),))
        if done is not None:
            self.end = done[0]
        return done is not None or self.end is not None

    def _ask(self) -> bool:
        if self._asked_in_vain:
            self.agent.turn = self.turn
            self._asked_in_vain = False
        self._deliver()
        self.end = self.agent.exhausted()
        if self.end is not None:
            return True
        self._asked_in_vain = True
        reply = self._do(self.agent.ask)
        if reply is None:
            return self.end is not None
        self._asked_in_vain = False
        self._open, self.reply = _Open(reply, []), reply
        return True if reply.tool_calls else self._settled()

    def _answer(self, open_turn: _Open, call: ToolCall) -> bool:
        observation = self._do(lambda: self.agent.answer(call))
        if observation is not None:
            open_turn.answers.append(observation)
        elif self.end is None:
            open_turn.answers.append(self._person.interrupted(call))
        return observation is not None or self.end is not None

    def _settled(self) -> bool:
        """End the open turn if its calls are answered; False where a person interrupted that."""
        open_turn = self._open
        if open_turn is None or self.end is not None:
            return True
        self._open = None
        self._deliver()
        turn = Turn(self.agent.turn, open_turn.reply, tuple(open_turn.answers))
        done = self._do(lambda: (self.agent.settle(turn),))
        if done is not None:
            self.end = done[0]
        elif self.end is None:
            self._person.say("A person interrupted the verdict on this turn; it was not taken.")
            return False
        return True

    def _do[T](self, work: Callable[[], T]) -> T | None:
        """Do a part of the run; None where it was interrupted or, with `end` set, where the run is over."""
        result = self.agent.guarded(work)
        if not isinstance(result, Stop):
            return result
        if result.reason is not StopReason.INTERRUPTED:
            self.end = result
        return None

    def _deliver(self) -> None:
        while self._unheard:
            self._person.say(self._unheard.pop(0))

    def _after(self, completed: bool, goal: Goal, turn: int | None) -> Halt | None:
        """Say whether to stand still after a move."""
        news = self._watch.news()
        happened = self._course.hear(self._watch.reports(news))
        if not completed:
            return Halt(INTERRUPTED)
        point = self.breakpoints.at(happened)
        if self.end is not None:
            return Halt()
        if point is None and self.pending is not None:
            point = self.breakpoints.at_call(self.pending)
        if point is not None:
            return Halt(f"breakpoint {point.number}: {point.text}")
        return self._reached(goal, turn, news)

    def _reached(self, goal: Goal, turn: int | None, news: Sequence[Event]) -> Halt | None:
        if turn is not None:
            return Halt() if self.agent.turn >= turn else None
        match goal:
            case Goal.STEP:
                replied_without_calls = self.reply is not None and not self.reply.tool_calls
                return Halt() if self.pending or (self._open is None and replied_without_calls) else None
            case Goal.NEXT:
                return Halt("a verdict was taken") if any(isinstance(event, Judged) for event in news) else None
            case Goal.CONTINUE:
                return None
