"""What a run used and what came of it: tokens by part of the context, the budget, the ledger of verdicts."""

import json
from collections.abc import Sequence
from dataclasses import asdict

from cuda_agent.debugger.screen import one_line, paragraph, table
from cuda_agent.llm.model import Message, ToolSpec
from cuda_agent.runs.session import Session
from cuda_agent.trajectory import Event, Judged

CHARS_A_TOKEN = 4
"""A rule of thumb, for models that count no tokens."""


def token_lines(messages: Sequence[Message], tools: Sequence[ToolSpec], counted: int) -> list[str]:
    """Return the context's parts; `counted` is the provider's count of the last request, 0 where there was none."""
    parts = {"system": 0, "tools": _size([asdict(tool) for tool in tools]), "task": 0, "model": 0}
    parts |= {"observations": 0, "runtime and person": 0}
    first_user = next((n for n, message in enumerate(messages) if message.role == "user"), -1)
    for number, message in enumerate(messages):
        match message.role:
            case "system":
                parts["system"] += len(message.content)
            case "assistant":
                calls = sum(len(call.name) + _size(call.arguments) for call in message.tool_calls)
                parts["model"] += len(message.content) + len(message.reasoning) + calls
            case "tool":
                parts["observations"] += len(message.content)
            case _:
                parts["task" if number == first_user else "runtime and person"] += len(message.content)
    whole = max(1, sum(parts.values()))
    tokens = counted or whole // CHARS_A_TOKEN
    rows = [
        (name, f"about {round(tokens * size / whole):,}", f"{100 * size / whole:.0f} %") for name, size in parts.items()
    ]
    how = (
        f"all of it   {counted:,} in the last request, as the provider counted; the parts are estimated by characters"
        if counted
        else f"all of it   about {tokens:,}: an estimate ({CHARS_A_TOKEN} characters a token); the model counts none"
    )
    return [*table(rows), *paragraph(how).split("\n")]


def budget_lines(session: Session) -> list[str]:
    """Return turns, time, tokens, cost and final verdicts, used and left."""
    agent, clock = session.agent, session.clock
    limit = "no limit" if clock.limit_s is None else f"of {clock.limit_s:,.0f} s"
    usage = agent.usage
    costs = [one.cost_usd for one in usage if one.cost_usd is not None]
    cost = f"{sum(costs):.4f} USD" if len(costs) == len(usage) else "unknown (the provider named no price)"
    tokens = (
        f"{sum(one.input_tokens for one in usage):,} in ({sum(one.cached_tokens for one in usage):,} cached),"
        f" {sum(one.output_tokens for one in usage):,} out"
    )
    rows = [
        ("turns", f"{agent.turn} of {agent.limits.max_turns}"),
        ("time", f"{clock.elapsed_s:,.0f} s, {limit} (time at this prompt is not counted)"),
        ("tokens", tokens),
        ("cost", cost),
        ("finals", f"{session.referee.finals_left} of {agent.limits.finals} final verdicts left"),
    ]
    return table(rows)


def ledger_lines(events: Sequence[Event], best_turn: int | None) -> list[str]:
    """Return a line for each verdict."""
    judged = [event for event in events if isinstance(event, Judged)]
    if not judged:
        return ["No verdict was taken yet."]
    rows = []
    for event in judged:
        report = event.report
        one = report.get("speedup", {}).get(report.get("headline", "compile"))
        speed = f"{one['median']:.3g}x" if one else "-"
        kind = "final" if report.get("final") else "in loop"
        reason = "" if one else one_line(str(report.get("reason", "")), 38)
        rows.append((f"turn {event.turn}", kind, str(report["status"]), speed, reason))
    best = f"The best is of turn {best_turn}." if best_turn is not None else "Nothing has passed yet."
    return [*table(rows), best]


def _size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, default=str))
