"""The end of a turn: it is judged, the model is told what it must know, and a run that is stuck or done ends."""

from collections.abc import Callable

from cuda_agent.llm.model import Reply
from cuda_agent.loop.calls import Repeats
from cuda_agent.loop.memory import Counts, Turn, headline_speedup
from cuda_agent.loop.referee import Referee, reaches_target
from cuda_agent.loop.stop import Limits, Stop, StopReason
from cuda_agent.prompting import Prompts, ratio_line, speedup_line
from cuda_agent.workspace import Captured
from cuda_agent_judge.report import Report, side_name

MAX_DETAILS_CHARS = 6_000
"""Of compiler errors and tracebacks in a message to the model."""


class Settling:
    """The counters of a run, and what they lead to."""

    def __init__(self, referee: Referee, prompts: Prompts, say: Callable[[str], None]) -> None:
        self._referee = referee
        self._prompts = prompts
        self._say = say
        self._repeats = Repeats()
        self._idle = 0
        self._polish_left: int | None = None

    @property
    def counts(self) -> Counts:
        """Where the counters stand."""
        return Counts(self._idle, self._polish_left, self._repeats.counts)

    def restore(self, counts: Counts) -> None:
        """Put the counters there."""
        self._idle, self._polish_left = counts.idle, counts.polish_left
        self._repeats = Repeats(counts.repeats)

    def settle(self, turn: Turn, now: Captured, limits: Limits, *, owed: bool = False) -> Stop | None:
        """Judge what a turn did (`owed`: whatever it did), and say whether the run ends.

        Raises:
            JudgeError: the judge itself failed.
            SandboxLost: the sandbox is gone.
        """
        reply = turn.reply
        changed = self._referee.note(now.submission)
        repeated = self._repeated(turn, changed, limits)
        if repeated is not None:
            return repeated
        report = self._judged(turn, now, owed)
        if self._referee.won:
            return self._polish(reply, report, turn.number, limits)
        if self._referee.at_limit:
            return Stop(StopReason.AT_HARDWARE_LIMIT, self._referee.at_limit)
        if reply.gave_up is not None:
            return Stop(StopReason.GAVE_UP, reply.gave_up)
        if reply.tool_calls:
            self._tell_of_verdict(report, turn.number, limits)
            return None
        return self._done_too_early(turn, report, changed, limits)

    def _judged(self, turn: Turn, now: Captured, owed: bool) -> Report | None:
        if turn.reply.tool_calls:
            self._idle = 0
            if not owed:
                return self._referee.after_calls(turn.number, now)
        return self._referee.judge(turn.number, now) if now.submission.exists else None

    def _repeated(self, turn: Turn, changed: bool, limits: Limits) -> Stop | None:
        if changed:
            self._repeats.reset()
        for call, observation in zip(turn.reply.tool_calls, turn.observations, strict=True):
            count = self._repeats.count(call, observation)
            if count >= limits.repeats_stuck:
                return Stop(StopReason.STUCK, f"the same {call.name} call gave the same result {count} times")
            if count == limits.repeats_nudge:
                self._say(self._prompts.nudge("repeat", tool=call.name, count=count))
        return None

    def _polish(self, reply: Reply, report: Report | None, turn: int, limits: Limits) -> Stop | None:
        best = self._referee.best
        reached = f"{headline_speedup(best.report):.2f}x over {side_name(best.report.headline)}" if best else ""
        if self._polish_left is None:
            self._polish_left = limits.polish
            self._referee.polishing = True
            if self._polish_left > 0 and reply.gave_up is None:
                self._say(self._prompts.nudge("polish", speedup=reached, turns_left=self._polish_left))
                return None
        else:
            self._polish_left -= 1
        if self._polish_left <= 0 or reply.gave_up is not None or not reply.tool_calls:
            return Stop(StopReason.TARGET_REACHED)
        self._tell_of_verdict(report, turn, limits)
        return None

    def _tell_of_verdict(self, report: Report | None, turn: int, limits: Limits) -> None:
        """After a turn with calls the model hears only of what its own commands did not tell it."""
        if report is not None and (report.final or not report.passed):
            self._tell(report, turn, limits)

    def _tell(self, report: Report, turn: int, limits: Limits) -> None:
        said = {
            "status": report.status,
            "reason": report.reason.rstrip("."),
            "details": "\n".join([report.details, *report.performance_lines]).strip()[:MAX_DETAILS_CHARS],
        }
        if report.final:
            more = {"interval": ratio_line(report), "finals_left": self._referee.finals_left}
            self._say(self._prompts.nudge("final_failed", **said, **more))
            return
        left = limits.max_turns - turn
        self._say(self._prompts.nudge("not_there_yet", **said, speedup=speedup_line(report), turns_left=left))

    def _done_too_early(self, turn: Turn, report: Report | None, changed: bool, limits: Limits) -> Stop | None:
        self._idle = 1 if changed else self._idle + 1
        if self._idle >= limits.idle_replies:
            return Stop(
                StopReason.STUCK, f"{self._idle} replies in a row without a call and without a changed submission"
            )
        if report is not None and not report.final and reaches_target(report):
            # No final verdict is left for it but the closing one.
            return Stop(StopReason.STUCK, f"{limits.finals} final verdicts did not confirm the target")
        if turn.reply.finish_reason == "length":
            self._say(self._prompts.nudge("cut_off"))
        elif report is None:
            self._say(self._prompts.nudge("no_submission", reason="model_new.py does not exist"))
        else:
            self._tell(report, turn.number, limits)
        return None
