"""From the response of the SDK, whose types stay unknown here, to a reply, whatever a server left out or doubled."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent.llm.model import FinishReason, Reply, ToolCall, Usage

_FINISHED: Mapping[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "content_filter": "content_filter",
    "refusal": "content_filter",
}
_CALL_KEYS = frozenset({"id", "type", "function", "index"})


def reply(response: Any, *, priced: bool, taken: set[str]) -> Reply:
    """Turn the SDK's response into our reply; `taken` are the ids of earlier calls."""
    message, raw = response.message, response.raw_response
    choice = raw.choices[0] if getattr(raw, "choices", None) else None
    raw_calls = getattr(getattr(choice, "message", None), "tool_calls", None) or []
    made = message.tool_calls or []
    calls = _calls(made, taken)
    finish = _finish(raw, choice, bool(calls))
    text = "".join(part.text for part in message.content if part.type == "text")
    return Reply(
        text=text,
        tool_calls=calls,
        usage=_usage(raw, priced=priced),
        finish_reason=finish,
        reasoning=message.reasoning_content or _summary(message.responses_reasoning_item),
        refusal=_refusal(choice, finish),
        provider=_provider(message, calls, made, raw_calls),
    )


def _calls(made: Sequence[Any], taken: set[str]) -> tuple[ToolCall, ...]:
    """Read the calls; an id that is missing or was there before gets a new one, so that each answer has one call."""
    calls: list[ToolCall] = []
    used = set(taken)
    for number, call in enumerate(made, start=1):
        identity = base = call.id or f"call_{len(taken) + number}"
        while identity in used:
            identity = f"{base}_{len(used)}" if identity == base else f"{identity}x"
        used.add(identity)
        calls.append(ToolCall(identity, call.name, _arguments(call.arguments), call.arguments or ""))
    return tuple(calls)


def _arguments(raw: str | None) -> Mapping[str, Any] | None:
    if not (raw or "").strip():
        return {}
    try:
        # Not strict: a raw line end inside a string is a common slip, and what is meant is clear.
        parsed = json.loads(raw or "", strict=False)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, dict) else None


def _finish(raw: Any, choice: Any, has_calls: bool) -> FinishReason:
    if choice is not None:
        said = str(getattr(choice, "finish_reason", None) or "")
    else:
        said = str(getattr(getattr(raw, "incomplete_details", None), "reason", None) or "")
    return _FINISHED.get(said, "tool_calls" if has_calls else "stop")


def _refusal(choice: Any, finish: FinishReason) -> str | None:
    fields = getattr(getattr(choice, "message", None), "provider_specific_fields", None) or {}
    said = fields.get("refusal") if isinstance(fields, Mapping) else None
    if said:
        return str(said)
    return "the provider's content filter stopped the reply" if finish == "content_filter" else None


def _usage(raw: Any, *, priced: bool) -> Usage:
    usage = getattr(raw, "usage", None)
    details = getattr(usage, "prompt_tokens_details", None) or getattr(usage, "input_tokens_details", None)
    cost = (getattr(raw, "_hidden_params", None) or {}).get("response_cost")
    return Usage(
        input_tokens=_count(usage, "prompt_tokens", "input_tokens"),
        output_tokens=_count(usage, "completion_tokens", "output_tokens"),
        cached_tokens=_count(details, "cached_tokens"),
        cost_usd=float(cost) if priced and isinstance(cost, int | float) else None,
    )


def _count(holder: Any, *names: str) -> int:
    found = (getattr(holder, name, None) for name in names)
    return next((int(value) for value in found if isinstance(value, int | float)), 0)


def _summary(item: Any) -> str:
    return "\n".join(item.summary) if item is not None else ""


def _provider(message: Any, calls: Sequence[ToolCall], made: Sequence[Any], raw_calls: Sequence[Any]) -> dict[str, Any]:
    """Collect what must come back unchanged, as JSON data."""
    kept: dict[str, Any] = {}
    if message.thinking_blocks:
        kept["thinking_blocks"] = [block.model_dump() for block in message.thinking_blocks]
    if message.responses_reasoning_item is not None:
        kept["responses_reasoning_item"] = message.responses_reasoning_item.model_dump()
    items = {call.id: one.responses_item_id for call, one in zip(calls, made, strict=True) if _item(one)}
    if items:
        kept["responses_item_ids"] = items
    extras = {call.id: _extras(raw) for call, raw in zip(calls, raw_calls, strict=False)}
    if any(extras.values()):
        kept["call_extras"] = {identity: extra for identity, extra in extras.items() if extra}
    return kept


def _item(call: Any) -> str | None:
    return getattr(call, "responses_item_id", None)  # older versions of the SDK have no such field


def _extras(raw: Any) -> dict[str, Any]:
    whole: dict[str, Any] = raw.model_dump(mode="json", exclude_none=True)
    extras = {name: value for name, value in whole.items() if name not in _CALL_KEYS}
    inner = {name: value for name, value in whole.get("function", {}).items() if name not in ("name", "arguments")}
    return {**extras, "function": inner} if inner else extras
