"""BuiltinModel: what to do next, as a function of the conversation so far.

Each call replays the conversation into a state and decides from that alone, so the model can be resumed anywhere and
every answer it reads can change what it does.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from cuda_agent.llm.builtin import wording
from cuda_agent.llm.builtin.design import Design
from cuda_agent.llm.builtin.graph import Unsupported, read_graph
from cuda_agent.llm.builtin.history import Event, Purpose, command_for, read_events, was_answered
from cuda_agent.llm.builtin.progress import MAX_TRIES, Fate, Progress, find_analysis, replay
from cuda_agent.llm.builtin.recipes import choose
from cuda_agent.llm.builtin.variants import CONSERVATIVE, Variant
from cuda_agent.llm.model import Message, Reply, ToolCall, ToolSpec, Usage

MAX_CALLS = 250
MAX_WRITE_FAILURES = 6
TIMEOUT_MS = 600_000


@dataclass(frozen=True)
class _Turn:
    """A reply before its calls have ids."""

    text: str
    calls: tuple[tuple[str, Mapping[str, Any]], ...] = ()
    gave_up: str | None = None


class BuiltinModel:
    """A deterministic policy for the families of operators that recipes.py chooses from."""

    name = "builtin"

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        """Take the next turn."""
        del tools
        events = read_events(messages)
        turn = _decide(events, messages)
        number = sum(len(message.tool_calls) for message in messages)
        calls = tuple(
            ToolCall(id=f"builtin-{number + k}", name=name, arguments=arguments)
            for k, (name, arguments) in enumerate(turn.calls)
        )
        return Reply(
            text=turn.text,
            tool_calls=calls,
            usage=Usage(cost_usd=0.0),
            finish_reason="tool_calls" if calls else "stop",
            gave_up=turn.gave_up,
        )


def _decide(events: list[Event], messages: Sequence[Message]) -> _Turn:
    if len(events) > MAX_CALLS:
        return _give_up(f"{MAX_CALLS} calls did not lead to a result.")
    report, unread = find_analysis(events)
    if report is None:
        return _analyse(unread, events)
    analysis = report.get("analysis")
    if not isinstance(analysis, Mapping):
        return _give_up(f"The analysis of the operator failed: {report.get('reason') or report.get('status')}")
    try:
        precision = (report.get("rules") or {}).get("precision")
        design = choose(read_graph(analysis, str(precision or "ieee")))
    except Unsupported as missing:
        return _give_up(f"The built-in model has no recipe for this operator: it cannot do {missing}.")
    progress = replay(events, design)
    if progress.baseline is None and progress.baseline_tries < 2:
        return _profile_native(design, progress)
    return _work(design, progress, messages)


def _analyse(unread: int, events: list[Event]) -> _Turn:
    if unread >= MAX_TRIES:
        last = [event.result for event in events if event.purpose is Purpose.ANALYSIS][-1]
        return _give_up(f"The analysis of the operator cannot be read: {last.strip()[-200:]}")
    call = _bash(command_for(Purpose.ANALYSIS, unread), "Trace the operator's graph")
    if unread:
        return _Turn("The analysis did not come through whole; I ask for it again in a packed form.", (call,))
    return _Turn(wording.OPENING, (_todos(0), call))


def _profile_native(design: Design, progress: Progress) -> _Turn:
    call = _bash(command_for(Purpose.BASELINE, progress.baseline_tries), "Time the native implementation")
    return _Turn(wording.recognised(design), (call,))


def _work(design: Design, progress: Progress, messages: Sequence[Message]) -> _Turn:
    if progress.files.failures >= MAX_WRITE_FAILURES:
        return _give_up(f"The kernel's files cannot be written: {progress.files.last_failure}")
    current = progress.current
    if current is not None:
        fate = progress.fates.get(current.name, Fate())
        step = fate.next_step
        if step is not None:
            return _step(progress, current, step, fate.tries[step])
    following = _following(design, progress)
    if following is not None:
        return _write(design, progress, following)
    return _finish(design, progress, messages)


def _step(progress: Progress, variant: Variant, step: Purpose, tries: int) -> _Turn:
    if tries >= MAX_TRIES:
        return _give_up(f"The answer of {command_for(step, 0)!r} cannot be read: {progress.unreadable}")
    call = _bash(command_for(step, tries), wording.STEP_TITLES[step])
    text = wording.before_step(variant, step, progress)
    first = len(progress.fates) <= 1 and tries == 0
    todos = {Purpose.VERIFY: 3, Purpose.PROFILE: 4}.get(step) if first else None
    return _Turn(text, (call,) if todos is None else (_todos(todos), call))


def _following(design: Design, progress: Progress) -> Variant | None:
    """Choose what to write now: after a refusal the conservative one, else the next untried, else the best."""
    variants = design.variants()
    refused = [name for name, fate in progress.fates.items() if fate.failure is not None]
    if CONSERVATIVE in refused:
        return None
    if refused and CONSERVATIVE not in progress.fates:
        return variants[CONSERVATIVE]
    best = best_variant(design, progress)
    untried = [variant for name, variant in variants.items() if name not in progress.fates and name != CONSERVATIVE]
    if untried and not (best is not None and progress.fates[best.name].at_floor):
        return untried[0]
    return best if best is not None and best != progress.current else None


def best_variant(design: Design, progress: Progress) -> Variant | None:
    """Return the fastest of those that passed."""
    rated = {name: fate.speedup for name, fate in progress.fates.items() if fate.failure is None}
    known = {name: speedup for name, speedup in rated.items() if speedup is not None}
    return design.variants()[max(known, key=lambda name: known[name])] if known else None


def _write(design: Design, progress: Progress, variant: Variant) -> _Turn:
    wanted = design.files(variant)
    unknown = progress.files.unknown(wanted)
    if unknown:
        call = _bash(f"rm -f {' '.join(unknown)}", "Remove files whose content is not mine")
        return _Turn("These files are not as I left them; I write them anew.", (call,))
    edits = progress.files.edits_to(wanted)
    calls: list[tuple[str, Mapping[str, Any]]] = [("MultiEdit", edit) for edit in edits]
    if not progress.fates:
        calls.insert(0, _todos(2))
    again = variant.name in progress.fates
    if again:
        calls.append(_todos(5))
    calls.append(_bash(command_for(Purpose.COMPILE, 0), wording.STEP_TITLES[Purpose.COMPILE]))
    text = wording.restoring(variant, progress) if again else wording.before_writing(design, variant, progress)
    return _Turn(text, tuple(calls))


def _finish(design: Design, progress: Progress, messages: Sequence[Message]) -> _Turn:
    best = best_variant(design, progress)
    if best is None:
        return _give_up(wording.no_variant_passed(progress))
    if was_answered(messages):
        return _give_up(wording.nothing_left(best, progress))
    return _Turn(wording.done(best, progress))


def _give_up(reason: str) -> _Turn:
    return _Turn(reason, gave_up=reason)


def _bash(command: str, description: str) -> tuple[str, Mapping[str, Any]]:
    return "Bash", {"command": command, "timeout": TIMEOUT_MS, "description": description}


def _todos(active: int) -> tuple[str, Mapping[str, Any]]:
    states = [
        "completed" if k < active else "in_progress" if k == active else "pending" for k in range(len(wording.PLAN))
    ]
    items = [
        {"content": content, "status": state, "activeForm": form}
        for (content, form), state in zip(wording.PLAN, states, strict=True)
    ]
    return "TodoWrite", {"todos": items}
