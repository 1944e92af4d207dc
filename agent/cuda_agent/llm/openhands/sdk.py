"""The SDK's side: our messages into its messages, its reply into ours. The only file that imports openhands or litellm.

Importing it takes seconds; `model.py` prepares the environment and does so in the background.
"""

import json
import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openhands.sdk.llm import LLM, RedactedThinkingBlock, TextContent, ThinkingBlock
from openhands.sdk.llm import Message as SdkMessage
from openhands.sdk.llm.message import MessageToolCall, ReasoningItemModel
from pydantic import Field, SecretStr

from cuda_agent.llm.model import Message, Reply, ToolCall, ToolSpec
from cuda_agent.llm.openhands.options import Options
from cuda_agent.llm.openhands.reply import reply

_NO_OUTPUT = "(no output)"
_NO_TEXT = "(no text)"
_THINKING_TOKENS = {"minimal": 1_024, "low": 4_096, "medium": 16_384, "high": 32_768, "xhigh": 65_536}


class _Sent(SdkMessage):  # type: ignore[misc]  # the SDK's types are not followed
    """The SDK's message, which sends back unchanged what else the provider put into it."""

    passed_back: bool = True
    call_extras: list[dict[str, Any]] = Field(default_factory=list)

    def __deepcopy__(self, memo: Any = None) -> "_Sent":
        # The SDK copies the conversation to mark what is to be cached; only these parts are marked.
        copied: _Sent = self.model_copy(update={"content": [part.model_copy() for part in self.content]})
        return copied

    def to_chat_dict(self, **how: Any) -> dict[str, Any]:
        passed_back = self.passed_back and not self.thinking_blocks
        sent: dict[str, Any] = super().to_chat_dict(**{**how, "send_reasoning_content": passed_back})
        if self.role == "assistant" and self.thinking_blocks:
            sent["thinking_blocks"] = [block.model_dump() for block in self.thinking_blocks]
        for call, extras in zip(sent.get("tool_calls", []), self.call_extras, strict=False):
            call["function"].update(extras.get("function", {}))
            call.update({name: value for name, value in extras.items() if name != "function"})
        return sent


class _Llm(LLM):  # type: ignore[misc]
    """The SDK's LLM, which does not trip over calls without a name or an id: they are answered with an error."""

    async def _atransport_call(self, **request: Any) -> Any:
        response = await super()._atransport_call(**request)
        for choice in response.choices:
            for call in getattr(choice.message, "tool_calls", None) or []:
                call.type = "function"
                call.id = call.id or ""
                call.function.name = call.function.name or ""
        return response


@dataclass(frozen=True)
class _Offered:
    """A tool as the SDK asks for one; it gets our schema, without the field `summary` that its own class adds."""

    spec: ToolSpec

    @property
    def name(self) -> str:
        return self.spec.name

    def to_openai_tool(self, **_: Any) -> dict[str, Any]:
        return {"type": "function", "function": self._function()}

    def to_responses_tool(self, **_: Any) -> dict[str, Any]:
        return {"type": "function", "strict": False, **self._function()}

    def _function(self) -> dict[str, Any]:
        return {
            "name": self.spec.name,
            "description": self.spec.description,
            "parameters": dict(self.spec.parameters),
        }


class Sdk:
    """One LLM of the SDK: a request in, a reply out, errors as they come."""

    def __init__(self, options: Options) -> None:
        _quieten()
        self._options = options
        self._reasoning_back = True
        self._llm = _llm(options)
        # Plain strings are what every server takes; lists are needed to mark what is to be cached.
        self._llm.force_string_serializer = not self._llm.is_caching_prompt_active()

    async def ask(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, timeout_s: float) -> Reply:
        """Send one request."""
        try:
            return await self._ask(messages, tools, timeout_s)
        except Exception as error:
            # Some servers insist on getting the reasoning back, others refuse it: the first word decides.
            if "reasoning_content" not in str(error) or not any(message.reasoning for message in messages):
                raise
            self._reasoning_back = not self._reasoning_back
            return await self._ask(messages, tools, timeout_s)

    async def _ask(self, messages: Sequence[Message], tools: Sequence[ToolSpec], timeout_s: float) -> Reply:
        sent = _to_sdk(messages, reasoning_back=self._reasoning_back)
        offered = [_Offered(tool) for tool in tools]
        more = {"timeout": timeout_s, "max_retries": 0}
        # A server of the person's own has the chat format, whatever its models are called.
        if self._llm.uses_responses_api() and not self._options.own_server:
            response = await self._llm.aresponses(messages=sent, tools=offered, store=False, **more)
        else:
            response = await self._llm.acompletion(messages=sent, tools=offered, **more)
        return reply(response, priced=self._options.priced, taken=_ids(messages))


def _llm(options: Options) -> _Llm:
    effort = options.reasoning_effort
    chosen = {"temperature": options.temperature, "reasoning_effort": effort}
    # The SDK and litellm leave out what they think an unknown model does not take; its server knows better.
    body = {name: value for name, value in chosen.items() if value is not None} if options.own_server else {}
    # litellm knows which model of a provider takes no temperature; the SDK leaves it out for all that can reason.
    believed = {"supports_sampling_params": True} if options.temperature is not None else {}
    return _Llm(
        model=options.model,
        api_key=SecretStr(options.key) if options.key else None,
        base_url=options.api_base,
        temperature=options.temperature,
        reasoning_effort=effort,
        extended_thinking_budget=_THINKING_TOKENS.get(effort, 32_768) if effort and effort != "none" else None,
        litellm_extra_body=body,
        capability_overrides=believed,
        num_retries=0,
        timeout=None,
        stream=False,
        log_completions=False,
        prompt_cache_retention=None,
        openrouter_site_url="",
        openrouter_app_name="",
        usage_id="cuda-agent",
    )


def _quieten() -> None:
    """Keep third parties off the terminal: their log lines and warnings may hold requests, and with them keys."""
    for name in ("openhands", "LiteLLM", "LiteLLM Router", "LiteLLM Proxy", "litellm", "openai", "httpx"):
        logger = logging.getLogger(name)
        logger.addHandler(logging.NullHandler())
        logger.propagate = False
        logger.setLevel(logging.CRITICAL + 1)
    for module in ("openhands", "litellm", "pydantic"):
        warnings.filterwarnings("ignore", module=rf"{module}(\.|$)")


def _to_sdk(messages: Sequence[Message], *, reasoning_back: bool) -> list[_Sent]:
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    return [_to_sdk_message(message, names, reasoning_back) for message in messages]


def _to_sdk_message(message: Message, names: Mapping[str, str], reasoning_back: bool) -> _Sent:
    if message.role == "assistant":
        return _assistant(message, reasoning_back)
    if message.role == "tool":
        identity = message.tool_call_id or ""
        text = TextContent(text=message.content if message.content.strip() else _NO_OUTPUT)
        return _Sent(role="tool", content=[text], tool_call_id=identity, name=names.get(identity) or "unknown")
    return _Sent(role=message.role, content=[TextContent(text=message.content)])


def _assistant(message: Message, reasoning_back: bool) -> _Sent:
    provider = message.provider
    text = message.content
    if not text.strip():
        text = "" if message.tool_calls else _NO_TEXT  # an empty text block is refused by some providers
    blocks = [
        (ThinkingBlock if block.get("type") == "thinking" else RedactedThinkingBlock).model_validate(block)
        for block in provider.get("thinking_blocks", [])
    ]
    item = provider.get("responses_reasoning_item")
    extras = provider.get("call_extras", {})
    return _Sent(
        role="assistant",
        content=[TextContent(text=text)] if text else [],
        tool_calls=[_sdk_call(call, provider) for call in message.tool_calls] or None,
        reasoning_content=message.reasoning or None,
        thinking_blocks=blocks,
        responses_reasoning_item=ReasoningItemModel.model_validate(item) if item else None,
        passed_back=reasoning_back,
        call_extras=[extras.get(call.id, {}) for call in message.tool_calls],
    )


def _sdk_call(call: ToolCall, provider: Mapping[str, Any]) -> MessageToolCall:
    if call.arguments is None:
        # What was no JSON must not be sent back as it came: providers parse it and refuse the whole conversation.
        arguments = json.dumps({"malformed_arguments": call.raw_arguments})
    else:
        arguments = call.raw_arguments.strip() or json.dumps(dict(call.arguments))
    item_id = provider.get("responses_item_ids", {}).get(call.id)
    origin = "responses" if item_id else "completion"
    return MessageToolCall(
        id=call.id, responses_item_id=item_id, name=call.name or "unnamed", arguments=arguments, origin=origin
    )


def _ids(messages: Sequence[Message]) -> set[str]:
    return {call.id for message in messages for call in message.tool_calls}
