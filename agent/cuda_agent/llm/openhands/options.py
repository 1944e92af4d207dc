"""What an LLM is asked with: a name that litellm resolves, a server, a key, how to sample."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from cuda_agent.errors import ConfigError
from cuda_agent.llm.openhands.failures import Where
from cuda_agent.llm.openhands.keys import find_key
from cuda_agent.llm.openhands.names import full_name, provider_of


@dataclass(frozen=True)
class Options:
    """One LLM."""

    model: str
    """The full name, provider included."""
    api_base: str | None = None
    key: str | None = field(default=None, repr=False)
    key_variable: str | None = None
    temperature: float | None = None
    reasoning_effort: str | None = None

    @property
    def own_server(self) -> bool:
        """Say whether the name stands for whatever an OpenAI-compatible server at `api_base` calls so."""
        return self.api_base is not None and self.model.startswith("openai/")

    @property
    def priced(self) -> bool:
        """Say whether litellm's price list is about this model."""
        return not self.own_server

    @property
    def where(self) -> Where:
        """Return what sentences about this LLM name."""
        provider, slash, rest = self.model.partition("/")
        server = (
            f"The server {self.api_base!r}"
            if self.api_base
            else f"The provider {provider if slash else 'of ' + self.model!r}"
        )
        key = f"${self.key_variable}" if self.key_variable else "--api-key-env names its variable"
        return Where(model=rest if self.own_server else self.model, server=server, key=key)


def resolve(
    name: str,
    environ: Mapping[str, str],
    *,
    api_base: str | None = None,
    api_key_env: str | None = None,
    temperature: float | None = None,
    reasoning_effort: str | None = None,
) -> Options:
    """Check all that can be checked without a request and find the key.

    Raises:
        ConfigError: a name, an address or the key is wrong or missing.
    """
    if api_base is not None:
        _check_address(api_base)
    model = full_name(name, api_base=api_base)
    key = find_key(provider_of(model), api_base=api_base, variable=api_key_env, environ=environ)
    return Options(model, api_base, key, api_key_env, temperature, reasoning_effort)


def _check_address(api_base: str) -> None:
    try:
        parts = urlsplit(api_base)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        usable, parts = False, urlsplit("")
    if parts.username or parts.password or parts.query or "@" in api_base:
        # Not repeated: what stands there is a secret, and the address goes into run.json.
        raise ConfigError("--api-base must hold no user, password or query; give the key with --api-key-env NAME.")
    if not usable:
        raise ConfigError(f"--api-base cannot be {api_base!r}; it takes a URL like http://127.0.0.1:8000/v1.")
