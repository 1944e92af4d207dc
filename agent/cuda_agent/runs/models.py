"""From a model's name to the model; each is imported only when it is asked for."""

import math
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from cuda_agent.config import Settings, check_model_name
from cuda_agent.context import Context
from cuda_agent.llm.model import Model, RemoteModel
from cuda_agent_tools.sandbox import Sandbox

if TYPE_CHECKING:
    from cuda_agent.llm.openhands.options import Options


def make(settings: Settings, environ: Mapping[str, str], *, replies: int = 0) -> Model:
    """Return the model that the settings name; `replies` is how many it gave in the run already.

    An LLM begins to load in the background.

    Raises:
        ConfigError: there is none, its file cannot be read, or its key is missing.
    """
    name = settings.model
    check_model_name(name)
    if name == "builtin":
        from cuda_agent.llm.builtin.policy import BuiltinModel  # only when asked for

        return BuiltinModel()
    if name.startswith("scripted:"):
        from cuda_agent.llm.scripted import from_file  # only when asked for

        return from_file(Path(name.removeprefix("scripted:")), replies=replies)
    from cuda_agent.llm.openhands.model import OpenHandsModel  # only when asked for

    return OpenHandsModel(_options(settings, environ), environ)


def check(settings: Settings, environ: Mapping[str, str]) -> None:
    """Say early that there is no such model; nothing is loaded.

    Raises:
        ConfigError: there is none, or its key is missing.
    """
    check_model_name(settings.model)
    if settings.model != "builtin" and not settings.model.startswith("scripted:"):
        _options(settings, environ)


def _options(settings: Settings, environ: Mapping[str, str]) -> "Options":
    from cuda_agent.llm.openhands.keys import conceal  # only when asked for
    from cuda_agent.llm.openhands.options import resolve  # only when asked for

    conceal()  # a variable's name need not tell that it holds a key
    return resolve(
        settings.model,
        environ,
        api_base=settings.api_base,
        api_key_env=settings.api_key_env,
        temperature=settings.temperature,
        reasoning_effort=settings.reasoning_effort,
    )


def context_of(model: Model, settings: Settings, sandbox: Sandbox, notify: Callable[[str], None]) -> Context:
    """Return what bounds the conversation sent to this model; only an LLM has a limit."""
    if not isinstance(model, RemoteModel):
        return Context(math.inf)

    def keep(text: str) -> str:
        path = f"{sandbox.state_dir}/outputs/{secrets.token_hex(4)}.txt"
        try:
            sandbox.write(path, f"{text}\n".encode("utf-8", "backslashreplace"))
        except OSError:
            return ""  # the model can run the command again
        return path

    return Context(settings.context_tokens, keep=keep, notify=notify)
