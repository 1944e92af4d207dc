"""The model `openhands`: any LLM that litellm reaches, with our deadline, our retries, and no key in what it says."""

import dataclasses
import importlib
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from cuda_agent.errors import ContextOverflow, ModelError
from cuda_agent.llm.model import Message, Reply, ToolSpec
from cuda_agent.llm.openhands.background import Background
from cuda_agent.llm.openhands.failures import Failure, Kind, classify, sentence
from cuda_agent.llm.openhands.keys import Redactor
from cuda_agent.llm.openhands.options import Options
from cuda_agent.llm.openhands.retry import Failed, Patience

REQUEST_TIMEOUT_S = 900.0
"""One request from its first byte to the last of its answer; reasoning models take minutes."""
_ENVIRONMENT = {
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",  # no download at import
    "LITELLM_MODE": "PRODUCTION",  # else it loads a .env file that it finds
    "LOG_AUTO_CONFIG": "false",
    "DEBUG_LLM": "false",  # else the import asks a question on the terminal
    "ALLOW_SHORT_CONTEXT_WINDOWS": "true",
}


class Backend(Protocol):
    """Sends one request; any exception is the provider's."""

    async def ask(self, messages: Sequence[Message], tools: Sequence[ToolSpec], *, timeout_s: float) -> Reply:
        """Send the conversation and return the reply."""
        ...


def load_sdk(options: Options) -> Backend:
    """Import the SDK, which takes seconds, and make its LLM; `OpenHandsModel` has prepared the environment."""
    backend: Backend = importlib.import_module("cuda_agent.llm.openhands.sdk").Sdk(options)
    return backend


class OpenHandsModel:
    """An LLM. It is being loaded from the moment it is made; what fails there is told at the first request."""

    def __init__(
        self,
        options: Options,
        environ: Mapping[str, str],
        *,
        load: Callable[[Options], Backend] = load_sdk,
        patience: Patience | None = None,
        request_timeout_s: float = REQUEST_TIMEOUT_S,
    ) -> None:
        self.name = options.model
        self._options = options
        self._redactor = Redactor(options.key, environ)
        self._patience = patience or Patience(time_left=lambda: float("inf"), notify=lambda text: None)
        self._request_timeout_s = request_timeout_s
        os.environ.update(_ENVIRONMENT)  # read when the SDK is imported; set here because that happens in a thread
        self._background = Background(lambda: load(options))

    def attach(self, *, time_left: Callable[[], float], notify: Callable[[str], None]) -> None:
        """Bound every answer by the run's time, and say what is waited for."""
        self._patience = dataclasses.replace(self._patience, time_left=time_left, notify=notify)

    def complete(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        """Answer the conversation.

        Raises:
            ContextOverflow: it is longer than the model takes.
            ModelError: the provider failed after our retries, or the time is up.
        """
        try:
            return self._clean(self._patience.persist(lambda: self._ask(messages, tools)))
        except Failed as failed:
            failure = failed.failure
        text = self._redactor.text(sentence(failure, self._options.where))
        if failure.kind is Kind.REFUSED:
            return Reply(refusal=self._redactor.text(failure.said), finish_reason="content_filter")
        raise ContextOverflow(text) if failure.kind is Kind.OVERFLOW else ModelError(text, failure.kind)

    def _ask(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> Reply:
        self._loaded()
        timeout_s = min(self._request_timeout_s, self._patience.time_left())
        if timeout_s <= 0:
            raise Failed(Failure(Kind.TIMEOUT, "the run's time is up"))
        try:
            return self._background.run(
                lambda backend: backend.ask(messages, tools, timeout_s=timeout_s),
                timeout_s=timeout_s,
                time_left=self._patience.time_left,
            )
        except TimeoutError:
            raise Failed(Failure(Kind.TIMEOUT, f"nothing complete within {timeout_s:.0f} s")) from None
        except Exception as error:  # everything a provider's client may raise; `from None`: it may hold the key
            raise Failed(classify(error)) from None

    def _loaded(self) -> None:
        try:
            left = self._patience.time_left()
            self._background.ready(None if left == float("inf") else max(left, 0.0))
        except TimeoutError:
            raise Failed(Failure(Kind.TIMEOUT, "the run's time is up")) from None
        except Exception as error:
            said = self._redactor.text(f"{type(error).__name__}: {error}")
            raise ModelError(
                f"openhands-sdk cannot be used ({said}); install cuda-agent with its dependencies again."
            ) from None

    def _clean(self, reply: Reply) -> Reply:
        clean: Callable[[Any], Any] = self._redactor.value
        calls = tuple(
            dataclasses.replace(call, arguments=clean(call.arguments), raw_arguments=clean(call.raw_arguments))
            for call in reply.tool_calls
        )
        return dataclasses.replace(
            reply,
            text=clean(reply.text),
            tool_calls=calls,
            reasoning=clean(reply.reasoning),
            refusal=clean(reply.refusal),
            provider=clean(reply.provider),
        )
