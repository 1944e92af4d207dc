"""From what a person typed to a name that litellm resolves, without importing it: its tables are files beside it."""

import difflib
import importlib.util
import json
from functools import cache
from pathlib import Path
from typing import Any

from cuda_agent.errors import ConfigError

_NOT_LISTED = frozenset({"aiohttp_openai", "modelscope", "sagemaker_nova", "vertex_ai_beta"})
"""Providers that litellm knows and its tables leave out."""
_SHOWN = 80


def full_name(name: str, *, api_base: str | None) -> str:
    """Return the name with its provider in front; a bare one on a server of the person's own is `openai/NAME`.

    Raises:
        ConfigError: nobody is known to serve such a model, or litellm is not installed.
    """
    provider, slash, rest = name.partition("/")
    if slash and rest and provider in _providers():
        return name
    if api_base is not None and name.strip("/ "):
        return f"openai/{name}"  # an OpenAI-compatible server; most local ones are
    known = _prices().get(name, {}).get("litellm_provider")
    if known is not None and not slash:
        return name if known != "openai" else f"openai/{name}"
    raise ConfigError(_unknown(name, provider if slash else ""))


def provider_of(full: str) -> str:
    """Return the provider of a full name."""
    provider, slash, _ = full.partition("/")
    return provider if slash else str(_prices().get(full, {}).get("litellm_provider", ""))


def _unknown(name: str, provider: str) -> str:
    shown = name if len(name) <= _SHOWN else name[:_SHOWN] + "..."
    if provider:
        near = difflib.get_close_matches(provider, _providers(), n=1)
        guess = f" (did you mean {near[0]!r}?)" if near else ""
        problem = f"There is no provider {provider[:_SHOWN]!r} for the model {shown!r}{guess}"
    else:
        problem = f"There is no model {shown!r}"
    return (
        f"{problem}: put the provider in front as litellm names it (openai/{shown}, anthropic/...),"
        " or name the server that has it with --api-base URL; builtin needs neither."
    )


@cache
def _providers() -> frozenset[str]:
    named = _table("provider_endpoints_support_backup.json").get("providers", {})
    priced = {str(entry.get("litellm_provider")) for entry in _prices().values()}
    return frozenset({name.partition("/")[0] for name in named} | priced | _NOT_LISTED)


@cache
def _prices() -> dict[str, dict[str, Any]]:
    table = _table("model_prices_and_context_window_backup.json")
    return {name: entry for name, entry in table.items() if isinstance(entry, dict)}


def _table(file: str) -> dict[str, Any]:
    spec = importlib.util.find_spec("litellm")  # finds the folder, imports nothing
    if spec is None or spec.origin is None:
        raise ConfigError("The package litellm is missing; install cuda-agent with its dependencies again.")
    try:
        table = json.loads((Path(spec.origin).parent / file).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"litellm's table {file!r} cannot be read ({error}); install litellm again.") from error
    return table if isinstance(table, dict) else {}
