"""Providers whose format is not OpenAI's chat: what they insist on getting back, through litellm, to a real server."""

import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.e2e.llm_server import Asked, LlmServer, says, serving
from tests.unit.agent.openhands.asking import TASK, TOOLS, Waits

from cuda_agent.llm.model import Message, Reply
from cuda_agent.llm.openhands.model import OpenHandsModel
from cuda_agent.llm.openhands.options import resolve

KEY = "sk-planted-7f3a9c51e2"
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "SIG"}
REASONED = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "ENC"}


def anthropic(asked: Asked) -> Mapping[str, Any]:
    call = {"type": "tool_use", "id": f"tu_{asked.number}", "name": "Bash", "input": {"command": "true"}}
    return {
        "id": "m", "type": "message", "role": "assistant", "model": "claude", "stop_reason": "tool_use",
        "content": [THOUGHT, {"type": "text", "text": "I look."}, call],
        "usage": {"input_tokens": 50, "output_tokens": 5, "cache_read_input_tokens": 10},
    }  # fmt: skip


def openai_responses(asked: Asked) -> Mapping[str, Any]:
    call = {"type": "function_call", "id": "fc_1", "call_id": f"call_{asked.number}", "name": "Bash"}
    return {
        "id": "r", "object": "response", "created_at": 1, "model": "gpt", "status": "completed", "error": None,
        "output": [REASONED, {**call, "arguments": '{"command": "true"}', "status": "completed"}],
        "usage": {"input_tokens": 50, "output_tokens": 5, "total_tokens": 55,
                  "input_tokens_details": {"cached_tokens": 8}, "output_tokens_details": {"reasoning_tokens": 0}},
        "parallel_tool_calls": True, "tool_choice": "auto", "tools": [], "temperature": 1, "top_p": 1,
        "incomplete_details": None, "instructions": None, "metadata": {},
    }  # fmt: skip


def two_turns(name: str, server: LlmServer, **how: Any) -> tuple[Reply, Sequence[Mapping[str, Any]]]:
    """Ask, answer the call with an empty output, and ask again; return the first reply and what came second."""
    model = OpenHandsModel(resolve(name, os.environ, **how), os.environ, patience=Waits().patience())
    first = model.complete(TASK, TOOLS)
    saved = json.loads(json.dumps(first.provider))  # as it comes back from a trajectory
    said = Message("assistant", first.text, tool_calls=first.tool_calls, reasoning=first.reasoning, provider=saved)
    model.complete([*TASK, said, Message("tool", "", tool_call_id=first.tool_calls[0].id)], TOOLS)
    body = server.asked[1].body
    return first, body.get("messages") or body["input"]


def test_anthropic_gets_signed_thoughts_back_first_and_no_empty_text(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(anthropic) as server:
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.base.removesuffix("/v1"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        first, sent = two_turns("anthropic/claude-sonnet-4-5", server, reasoning_effort="low")
    assert server.asked[0].path == "/v1/messages"
    assert [part["type"] for part in sent[1]["content"]] == ["thinking", "text", "tool_use"]
    assert sent[1]["content"][0] == THOUGHT
    assert sent[2]["content"][0]["tool_use_id"] == "tu_1"
    assert sent[2]["content"][0]["content"][0]["text"] == "(no output)"
    assert sent[2]["content"][0]["cache_control"] == {"type": "ephemeral"}
    assert first.usage.cached_tokens == 10
    assert first.usage.cost_usd is not None
    assert first.usage.cost_usd > 0


def test_nobody_thinks_unless_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(anthropic) as server:
        monkeypatch.setenv("ANTHROPIC_API_BASE", server.base.removesuffix("/v1"))
        monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
        model = OpenHandsModel(resolve("anthropic/claude-sonnet-4-5", os.environ), os.environ)
        model.complete(TASK, TOOLS)
    assert "thinking" not in server.asked[0].body
    assert "reasoning_effort" not in server.asked[0].body


def test_openai_gets_its_reasoning_items_back(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(openai_responses) as server:
        for variable in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
            monkeypatch.setenv(variable, server.base)
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        first, sent = two_turns("openai/gpt-5-mini", server)
    assert server.asked[0].path == "/v1/responses"
    assert server.asked[0].body["store"] is False
    kinds = [item["type"] for item in sent]
    assert kinds == ["message", "reasoning", "function_call", "function_call_output"]
    assert sent[1]["encrypted_content"] == "ENC"
    assert (sent[2]["id"], sent[2]["call_id"], sent[3]["call_id"]) == ("fc_1", "call_1", "call_1")
    assert (first.usage.input_tokens, first.usage.cached_tokens) == (50, 8)


def test_a_server_of_ones_own_is_spoken_to_in_the_chat_format_whatever_the_model_is_called() -> None:
    with serving([says("hi")]) as server:
        options = resolve("gpt-5-mini", {}, api_base=server.base, temperature=0.5, reasoning_effort="low")
        assert OpenHandsModel(options, {}).complete(TASK, TOOLS).usage.cost_usd is None
    assert server.asked[0].path == "/v1/chat/completions"
    assert server.asked[0].body["reasoning_effort"] == "low"
    assert all(isinstance(message["content"], str) for message in server.asked[0].messages)


def test_what_was_chosen_is_sent() -> None:
    with serving([says("hi")]) as server:
        options = resolve("some-model", {}, api_base=server.base, temperature=0.5, reasoning_effort="high")
        OpenHandsModel(options, {}).complete(TASK, TOOLS)
    assert (server.asked[0].body["temperature"], server.asked[0].body["reasoning_effort"]) == (0.5, "high")


def test_ollama_gets_plain_strings_and_its_calls_get_ids() -> None:
    called = {"function": {"name": "Bash", "arguments": {"command": "true"}}}
    answer = {
        "model": "q", "created_at": "2024-01-01T00:00:00Z", "done": True, "done_reason": "stop",
        "message": {"role": "assistant", "content": "", "tool_calls": [called]},
        "prompt_eval_count": 5, "eval_count": 3, "model_info": {}, "template": "",
    }  # fmt: skip
    with serving([answer]) as server:
        model = OpenHandsModel(resolve("ollama_chat/qwen3", {}, api_base=server.base.removesuffix("/v1")), {})
        first = model.complete(TASK, TOOLS)
        said = Message("assistant", first.text, tool_calls=first.tool_calls)
        model.complete([*TASK, said, Message("tool", "", tool_call_id=first.tool_calls[0].id)], TOOLS)
    assert first.tool_calls[0].arguments == {"command": "true"}
    sent = [asked for asked in server.asked if asked.path.endswith("/api/chat")][1].messages
    assert all(isinstance(message["content"], str) for message in sent)
