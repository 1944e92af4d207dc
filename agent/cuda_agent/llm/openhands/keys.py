"""Keys: where one is found, that no text which leaves the model layer holds one, and that no process reads one here."""

import ctypes
import re
from collections.abc import Mapping
from typing import Any

from cuda_agent.errors import ConfigError

NO_KEY = "no-key-needed"
"""What a server without keys is sent: client libraries insist on one."""
_VARIABLES = {
    "anthropic": "ANTHROPIC_API_KEY",
    "cerebras": "CEREBRAS_API_KEY",
    "dashscope": "DASHSCOPE_API_KEY",
    "deepseek": "DEEPSEEK_API_KEY",
    "fireworks_ai": "FIREWORKS_API_KEY",
    "gemini": "GEMINI_API_KEY",
    "groq": "GROQ_API_KEY",
    "mistral": "MISTRAL_API_KEY",
    "moonshot": "MOONSHOT_API_KEY",
    "openai": "OPENAI_API_KEY",
    "openrouter": "OPENROUTER_API_KEY",
    "together_ai": "TOGETHERAI_API_KEY",
    "xai": "XAI_API_KEY",
    "zai": "ZAI_API_KEY",
}
"""Providers with one key in one variable. The others find theirs by litellm's own rules."""
_OWN_SERVER = frozenset({"openai", "hosted_vllm", "vllm", "lm_studio", "llamafile", "custom_openai", "openai_like"})
"""Providers that stand for any OpenAI-compatible server once --api-base names one."""
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_TELLABLE = re.compile(r"[A-Z][A-Z0-9_]{0,39}")
"""A variable's name that is surely not a key put in its place."""
_SECRET_NAME = re.compile(r"(_KEY|_TOKEN|_SECRET|_PASSWORD|_PAT)$")
_LEAST_CHARS = 7
"""A shorter value ("EMPTY", "none") keeps no secret and would be found in ordinary text."""
_STANDS_FOR = "[key]"
_PR_SET_DUMPABLE = 4


def find_key(provider: str, *, api_base: str | None, variable: str | None, environ: Mapping[str, str]) -> str | None:
    """Return the key to send; None leaves it to litellm, which knows providers with several variables.

    A key that nobody named is never sent to a server that --api-base names.

    Raises:
        ConfigError: the key is missing.
    """
    if variable is not None:
        return _named(variable, environ)
    usual = _VARIABLES.get(provider)
    if api_base is not None:
        return NO_KEY if usual or provider in _OWN_SERVER else None
    if usual is None:
        return None
    value = environ.get(usual, "").strip()
    if not value and provider == "gemini":
        value = environ.get("GOOGLE_API_KEY", "").strip()
    if not value:
        raise ConfigError(
            f"${usual} is not set: put the key for {provider} there, or name its variable with --api-key-env."
        )
    return value


def holds_secret(environ: Mapping[str, str]) -> bool:
    """Say whether a variable is set whose name tells that it holds a secret."""
    return any(value.strip() for name, value in environ.items() if _SECRET_NAME.search(name.upper()))


def conceal() -> None:
    """Keep other processes of this user out of this one's environment and memory, debuggers too; root still gets in.

    Programs that this one starts do not inherit it.
    """
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)


def _named(variable: str, environ: Mapping[str, str]) -> str:
    value = environ.get(variable, "").strip() if _VARIABLE.fullmatch(variable) else ""
    if value:
        return value
    # What stands there may be the key itself, typed in the wrong place: only what is surely a name is repeated.
    shown = f"${variable}" if _TELLABLE.fullmatch(variable) else "The variable that --api-key-env names"
    raise ConfigError(
        f"{shown} is not set: --api-key-env takes the name of an environment variable that holds the key."
    )


class Redactor:
    """Takes keys out of texts."""

    def __init__(self, key: str | None, environ: Mapping[str, str]) -> None:
        values = {key or ""} | {value for name, value in environ.items() if _SECRET_NAME.search(name.upper())}
        found = {value.strip() for value in values if value.strip() != NO_KEY}
        self._secrets = sorted((value for value in found if len(value) >= _LEAST_CHARS), key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text with every key replaced."""
        for secret in self._secrets:
            text = text.replace(secret, _STANDS_FOR)
        return text

    def value(self, value: Any) -> Any:
        """Return JSON data with every key in its strings replaced."""
        match value:
            case str():
                return self.text(value)
            case Mapping():
                return {self.text(str(name)): self.value(one) for name, one in value.items()}
            case list() | tuple():
                return [self.value(one) for one in value]
            case _:
                return value
