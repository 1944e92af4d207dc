"""The agent: `run` takes turns until there is a reason to stop; a turn is `ask`, `answer` for each call, `settle`.

It knows no concrete model, sandbox or tool, and has no hooks: who wants to go step by step calls the parts of a turn.
"""

import dataclasses
import math
from collections.abc import Callable
from typing import Literal

from cuda_agent.context import Context
from cuda_agent.errors import JudgeError, ModelError
from cuda_agent.judging import JudgeTimeout
from cuda_agent.llm.model import Message, Model, Reply, ToolCall, Usage
from cuda_agent.loop.calls import Calls
from cuda_agent.loop.keeping import Keeping
from cuda_agent.loop.memory import Memory, Turn
from cuda_agent.loop.referee import Referee
from cuda_agent.loop.settling import Settling
from cuda_agent.loop.stop import Limits, Stop, StopReason, TimeLeft
from cuda_agent.prompting import Prompts
from cuda_agent.trajectory import MessageAdded, Notice, Observation, StageStarted, Stopped, Trajectory, TurnEnded
from cuda_agent_tools.sandbox import SandboxLost

_LATE = "the run's time limit is reached."
_UNKNOWN = (
    "Interrupted, state unknown: the program was stopped while this call waited or ran. It may have done a part of its"
    " work or nothing; look before you go on."
)


class Agent:
    """A model at work on one operator."""

    def __init__(
        self,
        *,
        model: Model,
        calls: Calls,
        referee: Referee,
        prompts: Prompts,
        trajectory: Trajectory,
        keeping: Keeping,
        limits: Limits,
        time_left: TimeLeft = lambda: math.inf,
        elapsed: Callable[[], float] = lambda: 0.0,
        context: Context | None = None,
    ) -> None:
        self.model = model
        """Who is asked next; another may take over between two turns."""
        self._calls = calls
        self._referee = referee
        self._prompts = prompts
        self._trajectory = trajectory
        self._keeping = keeping
        self.limits = limits
        """May be replaced between two turns."""
        self._time_left = time_left
        self._elapsed = elapsed
        self._settling = Settling(referee, prompts, self.say)
        self._unsettled: Turn | None = None
        self._owed = False
        self.context = context or Context(math.inf)
        """What of the conversation is sent to the model."""
        self.messages: list[Message] = []
        self.turn = 0
        self.usage: list[Usage] = []
        self.reply: Reply | None = None
        """The last one that came in this process."""
        self.stop: Stop | None = None

    def say(self, content: str, *, role: Literal["system", "user"] = "user", stays: bool = False) -> None:
        """Put a message of the runtime into the conversation; one that `stays` is not said again by `catch_up`."""
        self.messages.append(Message(role, content))
        self._trajectory.add(MessageAdded(self.turn, role, content, stays=stays))

    def ask(self) -> Reply:
        """Begin a turn: ask the model once; its calls are not answered yet.

        Raises:
            ModelError: the model's provider failed.
        """
        self.turn += 1
        self._trajectory.add(StageStarted(self.turn, "model"))
        reply = self.context.ask(self.model, tuple(self.messages), self._calls.specs)
        self._record(reply)
        return reply

    def answer(self, call: ToolCall) -> Observation:
        """Run a call of the last reply (a late one is declined) and put its answer into the conversation.

        Raises:
            SandboxLost: the sandbox is gone; the call stays unanswered.
        """
        if self._late():
            return self.decline(call, _LATE)
        return self._observed(self._calls.answer(self.turn, call))

    def decline(self, call: ToolCall, why: str) -> Observation:
        """Answer a call of the last reply without running it."""
        return self._observed(self._calls.decline(self.turn, call, why))

    def step(self) -> Turn:
        """Ask the model once and answer its calls; `settle` ends the turn.

        Raises:
            ModelError: the model's provider failed.
            SandboxLost: the sandbox is gone.
        """
        reply = self.ask()
        observations = tuple(self.answer(call) for call in reply.tool_calls)
        return Turn(self.turn, reply, observations)

    def run(self) -> StopReason:
        """Take turns until there is a reason to stop, then give the best submission its final verdict.

        Raises:
            JudgeError: the judge itself failed.
            DiskError: the run's folder could not be written.
        """
        return self.finish(self.guarded(self._turns))

    def finish(self, stop: Stop) -> StopReason:
        """End the run: the best submission without a final verdict gets one, and the reason is written down.

        Raises:
            JudgeError: the judge itself failed.
            DiskError: the run's folder could not be written.
        """
        if stop.reason is StopReason.INTERRUPTED and self._referee.reserve_s:
            text = "Interrupted; the best kernel gets its final verdict (interrupt again to leave at once)."
            self._trajectory.add(Notice(self.turn, text))
        if stop.reason is not StopReason.SANDBOX_LOST:
            closing = self.guarded(self._close)
            if closing.reason in (StopReason.SANDBOX_LOST, StopReason.INTERRUPTED):
                stop = closing
        if self._referee.won and stop.reason is not StopReason.INTERRUPTED:
            ended = "" if stop.reason is StopReason.TARGET_REACHED else f"polishing ended: {stop.reason} {stop.detail}"
            stop = Stop(StopReason.TARGET_REACHED, ended.strip() or stop.detail)
        self.stop = stop
        self._trajectory.add(Stopped(self.turn, stop.reason, stop.detail))
        return stop.reason

    def guarded[T](self, work: Callable[[], T]) -> T | Stop:
        """Do a part of the run; what may end a run comes back as a Stop."""
        try:
            return work()
        except ModelError as error:
            # A model that was waited for until the end did not fail.
            return Stop(StopReason.TIME_LIMIT if self._late() else StopReason.MODEL_ERROR, str(error), error.kind)
        except SandboxLost as error:
            return Stop(StopReason.SANDBOX_LOST, str(error))
        except JudgeTimeout as error:
            if self._time_left() > 1.0:
                raise
            return Stop(StopReason.TIME_LIMIT, str(error))
        except KeyboardInterrupt:
            return Stop(StopReason.INTERRUPTED, "by a signal")

    def _close(self) -> Stop:
        try:
            self._referee.close(self.turn)
        except JudgeError as error:
            # What was reached in the loop stands, only without a final number.
            self._trajectory.add(Notice(self.turn, f"No final verdict: {error}"))
        return Stop(StopReason.TARGET_REACHED)

    def _turns(self) -> Stop:
        stop = self.catch_up()
        while stop is None:
            stop = self.exhausted() or self.settle(self.step())
        return stop

    def exhausted(self) -> Stop | None:
        """Say whether a limit leaves no further turn."""
        if self._late():
            return Stop(StopReason.TIME_LIMIT)
        if self.turn >= self.limits.max_turns:
            return Stop(StopReason.MAX_TURNS, f"{self.turn} turns")
        return None

    def time_left(self) -> float:
        """Return for how many seconds the model may go on: what the best submission's final verdict takes is kept."""
        return self._time_left() - self._referee.reserve_s

    def _late(self) -> bool:
        return self.time_left() <= 0

    def _observed(self, observation: Observation) -> Observation:
        self.messages.append(Message(role="tool", content=observation.text, tool_call_id=observation.id))
        return observation

    def _record(self, reply: Reply) -> None:
        self.reply = reply
        self.messages.append(
            Message(
                role="assistant",
                content=reply.text,
                tool_calls=reply.tool_calls,
                reasoning=reply.reasoning,
                provider=reply.provider,
            )
        )
        self.usage.append(reply.usage)
        self._trajectory.add(
            MessageAdded(
                self.turn,
                "assistant",
                reply.text,
                tool_calls=[dataclasses.asdict(call) for call in reply.tool_calls],
                reasoning=reply.reasoning,
                provider=reply.provider,
                usage=dataclasses.asdict(reply.usage),
                finish_reason=reply.finish_reason,
                refusal=reply.refusal,
                gave_up=reply.gave_up,
            )
        )

    def settle(self, turn: Turn) -> Stop | None:
        """End a turn: judge what it did, tell the model what it must know, and say whether the run ends.

        Raises:
            JudgeError: the judge itself failed.
            SandboxLost: the sandbox is gone.
        """
        if turn.reply.refusal is not None:
            return self._ended(turn.number, Stop(StopReason.REFUSED, turn.reply.refusal))
        now = self._keeping.keep(turn.number)
        # Nobody will ask for a verdict on what the last turn leaves. Where time ends it, what is left of that is kept
        # for the best's final verdict.
        last = turn.number >= self.limits.max_turns and not self._late()
        owed, self._owed = self._owed or last, False
        return self._ended(turn.number, self._settling.settle(turn, now, self.limits, owed=owed))

    def briefed(self) -> None:
        """End turn 0: the model was told its task, and the workspace is as it will find it.

        Raises:
            WorkspaceError, DiskError, SandboxLost: the workspace could not be kept.
        """
        self._keeping.keep(0)
        self._ended(0, None)

    def _ended(self, turn: int, stop: Stop | None) -> Stop | None:
        counts = self._settling.counts
        loop = {
            "idle": counts.idle,
            "polish_left": counts.polish_left,
            "finals_left": self._referee.finals_left,
            "elapsed_s": round(self._elapsed(), 3),
            "verdict_s": round(self._referee.slowest_s, 3),
        }
        self._trajectory.add(TurnEnded(turn, self._keeping.snapshot, self._referee.noted, loop))
        return stop

    def memory(self) -> Memory:
        """Return what it and its referee know, between two turns."""
        return Memory(
            turn=self.turn,
            messages=tuple(self.messages),
            usage=tuple(self.usage),
            counts=self._settling.counts,
            verdicts=self._referee.memory(),
            snapshot=self._keeping.snapshot,
            elapsed_s=self._elapsed(),
            in_flight=self._unsettled,
            owed_verdict=self._owed,
        )

    def restore(self, memory: Memory) -> None:
        """Know this and nothing else. Unanswered calls of a turn in flight are answered as interrupted; see `catch_up`.

        Raises:
            DiskError: the run's folder could not be written.
        """
        self.stop = None
        self.turn = memory.turn
        self.messages, self.usage = list(memory.messages), list(memory.usage)
        self._keeping.snapshot = memory.snapshot
        self._settling.restore(memory.counts)
        self._referee.restore(memory.verdicts)
        self._unsettled, self._owed = memory.in_flight, memory.owed_verdict
        if memory.in_flight is not None:
            answered = memory.in_flight.observations
            missing = memory.in_flight.reply.tool_calls[len(answered) :]
            made = tuple(self._observed(self._calls.unknown(self.turn, call, _UNKNOWN)) for call in missing)
            self._unsettled = dataclasses.replace(memory.in_flight, observations=(*answered, *made))

    def catch_up(self) -> Stop | None:
        """Settle the turn that was in flight when the run was interrupted, if there is one.

        Raises:
            JudgeError, SandboxLost: as `settle`.
        """
        turn, self._unsettled = self._unsettled, None
        return None if turn is None else self.settle(turn)
