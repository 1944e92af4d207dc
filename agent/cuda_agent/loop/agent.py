"""The agent: `run` takes turns until there is a reason to stop; a turn is `ask`, `answer` for each call, `settle`.

It knows no concrete model, sandbox or tool, and has no hooks: who wants to go step by step calls the parts of a turn.
"""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from cuda_agent.context import Context
from cuda_agent.errors import JudgeError, ModelError
from cuda_agent.judging import JudgeTimeout, Submission
from cuda_agent.llm.model import Message, Model, Reply, ToolCall, Usage
from cuda_agent.loop.calls import Calls, Repeats
from cuda_agent.loop.referee import Referee, headline_speedup, reaches_target
from cuda_agent.loop.stop import Limits, Stop, StopReason, TimeLeft
from cuda_agent.prompting import Prompts, ratio_line, speedup_line
from cuda_agent.trajectory import MessageAdded, Notice, Observation, StageStarted, Stopped, Trajectory
from cuda_agent_judge.report import Report, side_name
from cuda_agent_tools.sandbox import SandboxLost

MAX_DETAILS_CHARS = 6_000
"""Of compiler errors and tracebacks in a message to the model."""
_LATE = "the run's time limit is reached."


@dataclass(frozen=True)
class Turn:
    """One reply and the answers to its calls, in order."""

    number: int
    reply: Reply
    observations: tuple[Observation, ...]


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
        read_submission: Callable[[], Submission],
        limits: Limits,
        time_left: TimeLeft = lambda: math.inf,
        context: Context | None = None,
    ) -> None:
        self.model = model
        """Who is asked next; another may take over between two turns."""
        self._calls = calls
        self._referee = referee
        self._prompts = prompts
        self._trajectory = trajectory
        self._read_submission = read_submission
        self.limits = limits
        """May be replaced between two turns."""
        self._time_left = time_left
        self._context = context or Context(math.inf)
        self._repeats = Repeats()
        self._idle = 0
        self._polish_left: int | None = None
        self.messages: list[Message] = []
        self.turn = 0
        self.usage: list[Usage] = []
        self.stop: Stop | None = None

    def say(self, content: str, *, role: Literal["system", "user"] = "user") -> None:
        """Put a message of the runtime into the conversation."""
        self.messages.append(Message(role, content))
        self._trajectory.add(MessageAdded(self.turn, role, content))

    def ask(self) -> Reply:
        """Begin a turn: ask the model once; its calls are not answered yet.

        Raises:
            ModelError: the model's provider failed.
        """
        self.turn += 1
        self._trajectory.add(StageStarted(self.turn, "model"))
        reply = self._context.ask(self.model, tuple(self.messages), self._calls.specs)
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
            return Stop(StopReason.TIME_LIMIT if self._late() else StopReason.MODEL_ERROR, str(error))
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
        while True:
            stop = self.exhausted() or self.settle(self.step())
            if stop is not None:
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
        self.usage.append(reply.usage)
        self.messages.append(
            Message(
                role="assistant",
                content=reply.text,
                tool_calls=reply.tool_calls,
                reasoning=reply.reasoning,
                provider=reply.provider,
            )
        )
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
        reply = turn.reply
        if reply.refusal is not None:
            return Stop(StopReason.REFUSED, reply.refusal)
        submission = self._read_submission()
        changed = self._referee.note(turn.number, submission)
        repeated = self._repeated(turn, changed)
        if repeated is not None:
            return repeated
        if reply.tool_calls:
            report = self._referee.after_calls(turn.number, submission)
            self._idle = 0
        else:
            report = self._referee.judge(turn.number, submission) if submission.exists else None
        if self._referee.won:
            return self._polish(reply, report)
        if reply.gave_up is not None:
            return Stop(StopReason.GAVE_UP, reply.gave_up)
        if reply.tool_calls:
            self._tell_of_verdict(report)
            return None
        return self._done_too_early(reply, report, changed)

    def _repeated(self, turn: Turn, changed: bool) -> Stop | None:
        if changed:
            self._repeats.reset()
        for call, observation in zip(turn.reply.tool_calls, turn.observations, strict=True):
            count = self._repeats.count(call, observation)
            if count >= self.limits.repeats_stuck:
                return Stop(StopReason.STUCK, f"the same {call.name} call gave the same result {count} times")
            if count == self.limits.repeats_nudge:
                self.say(self._prompts.nudge("repeat", tool=call.name, count=count))
        return None

    def _polish(self, reply: Reply, report: Report | None) -> Stop | None:
        best = self._referee.best
        reached = f"{headline_speedup(best.report):.2f}x over {side_name(best.report.headline)}" if best else ""
        if self._polish_left is None:
            self._polish_left = self.limits.polish
            self._referee.polishing = True
            if self._polish_left > 0 and reply.gave_up is None:
                self.say(self._prompts.nudge("polish", speedup=reached, turns_left=self._polish_left))
                return None
        else:
            self._polish_left -= 1
        if self._polish_left <= 0 or reply.gave_up is not None or not reply.tool_calls:
            return Stop(StopReason.TARGET_REACHED)
        self._tell_of_verdict(report)
        return None

    def _tell_of_verdict(self, report: Report | None) -> None:
        """After a turn with calls the model hears only of what its own commands did not tell it."""
        if report is not None and (report.final or not report.passed):
            self._tell(report)

    def _tell(self, report: Report) -> None:
        said = {
            "status": report.status,
            "reason": report.reason.rstrip("."),
            "details": report.details[:MAX_DETAILS_CHARS].rstrip(),
        }
        if report.final:
            more = {"interval": ratio_line(report), "finals_left": self._referee.finals_left}
            self.say(self._prompts.nudge("final_failed", **said, **more))
            return
        left = self.limits.max_turns - self.turn
        self.say(self._prompts.nudge("not_there_yet", **said, speedup=speedup_line(report), turns_left=left))

    def _done_too_early(self, reply: Reply, report: Report | None, changed: bool) -> Stop | None:
        self._idle = 1 if changed else self._idle + 1
        if self._idle >= self.limits.idle_replies:
            return Stop(
                StopReason.STUCK, f"{self._idle} replies in a row without a call and without a changed submission"
            )
        if report is not None and not report.final and reaches_target(report):
            # No final verdict is left for it but the closing one.
            return Stop(StopReason.STUCK, f"{self.limits.finals} final verdicts did not confirm the target")
        if reply.finish_reason == "length":
            self.say(self._prompts.nudge("cut_off"))
        elif report is None:
            self.say(self._prompts.nudge("no_submission", reason="model_new.py does not exist"))
        else:
            self._tell(report)
        return None
