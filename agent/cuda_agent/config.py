"""Settings of a run: from flags, the environment and a settings file, in that order."""

import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from cuda_agent.errors import ConfigError

DEFAULT_IMAGE = "cuda-agent-sandbox:latest"
KEY_VARIABLES = ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "DEEPSEEK_API_KEY", "OPENROUTER_API_KEY")


class Settings(BaseModel):
    """What a person can choose for one run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    operator: Path
    """The operator's file, or a folder with a model.py."""
    model: str = "builtin"
    """Who writes the kernels: `builtin`, `scripted:FILE.json` (replies from a file), or an LLM as litellm names it."""
    api_base: str | None = None
    """The address of the LLM's server, where it is not the provider's own."""
    api_key_env: str | None = None
    """The environment variable with the key; default: the provider's usual one."""
    temperature: float | None = Field(default=None, ge=0, le=2)
    """How freely the LLM samples; default: the provider's."""
    reasoning_effort: str | None = Field(default=None, pattern=r"^[a-z]{1,16}$")
    """How much a reasoning LLM thinks (low, medium, high, ...); default: the provider's."""
    context_tokens: int = Field(default=128_000, ge=8_000)
    """The conversation that an LLM is sent has at most so many tokens."""
    sandbox: Literal["auto", "local", "docker"] = "auto"
    """Where the model's commands run."""
    target: Literal["auto", "cpu", "cuda"] = "auto"
    """What kernels are written for."""
    gpu: str | None = Field(default=None, pattern=r"^([0-9]{1,4}|(GPU|MIG)-[0-9A-Za-z/-]{1,80})$")
    """The one GPU that is used: a number as nvidia-smi counts, or a UUID; the first that may be used unless named."""
    python: Path | None = None
    """The Python of the sandbox `local`, with torch; found by itself unless named."""
    image: str = DEFAULT_IMAGE
    """The image of the sandbox `docker`."""
    run_dir: Path | None = None
    """The run's folder; it must not exist. Default: runs/<UTC stamp>-<operator>."""
    max_turns: int = Field(default=200, ge=1)
    """The run stops after so many replies of the model."""
    time_limit_s: float | None = Field(default=None, gt=0)
    """The run stops after so many seconds."""
    polish: int = Field(default=0, ge=0)
    """So many more turns once the target is reached."""
    precision: Literal["tf32", "ieee", "half"] = "tf32"
    """What both sides may round to; always `ieee` on the target cpu."""
    libraries: Literal["vendor", "own", "any"] = "vendor"
    """What a submission may call: vendor libraries, only its own kernels, anything."""
    output_lifetime: Literal["held", "next-call"] = "held"
    """How long a returned tensor must stay valid."""
    operator_timeout_s: float = Field(default=300.0, gt=0, le=900)
    """One step of the operator (its import, its constructor, a draw of inputs, a call of forward) may take so long."""


_FLAGS = {"time_limit": "time_limit_s", "operator_timeout": "operator_timeout_s"}
"""Settings that a person knows by another name."""


def settings_file(environ: Mapping[str, str]) -> Path:
    """Return where the settings file is looked for."""
    base = environ.get("XDG_CONFIG_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".config")
    return Path(base) / "cuda-agent" / "settings.toml"


def resolve(flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """Merge flags (None means not given) over the environment over the settings file.

    Raises:
        ConfigError: a key is unknown or a value is not allowed.
    """
    file = settings_file(environ)
    values = _from_file(file)
    if environ.get("CUDA_AGENT_MODEL"):
        values["model"] = environ["CUDA_AGENT_MODEL"]
    if environ.get("CUDA_AGENT_IMAGE"):
        values["image"] = environ["CUDA_AGENT_IMAGE"]
    values.update({key: value for key, value in flags.items() if value is not None})
    settings = _validated(values, file)
    check_model_name(settings.model)
    return settings


def image_tag(environ: Mapping[str, str]) -> str:
    """Return the name of the sandbox's image where no run's settings are at hand.

    Raises:
        ConfigError: the settings file is wrong.
    """
    return environ.get("CUDA_AGENT_IMAGE") or str(_from_file(settings_file(environ)).get("image", DEFAULT_IMAGE))


def check_model_name(name: str) -> None:
    """Refuse what can name no model; whether an LLM's provider is known is checked where models are made.

    Raises:
        ConfigError: the name is empty or has a character that no model's name has.
    """
    if not name or not name.isprintable() or name != name.strip() or " " in name:
        raise ConfigError(
            f"The model cannot be {name!r}: use builtin, scripted:FILE.json, or an LLM as litellm names it"
            " (anthropic/..., openai/..., or any name with --api-base URL)."
        )


def key_hint(model: str, environ: Mapping[str, str]) -> str:
    """Return a line about a key that is set while `builtin` runs, or ""."""
    present = [name for name in KEY_VARIABLES if environ.get(name)]
    if model != "builtin" or not present:
        return ""
    return (
        f"{present[0]} is set, but the model is builtin, which needs no key;"
        " an LLM is named with --model PROVIDER/NAME or $CUDA_AGENT_MODEL."
    )


def _from_file(file: Path) -> dict[str, Any]:
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"The settings file {str(file)!r} cannot be read ({error}); correct or remove it.") from error
    for flag, key in _FLAGS.items():
        if flag in values:
            values[key] = values.pop(flag)
    for key in values:
        if key in ("operator", "run_dir") or key not in Settings.model_fields:
            raise ConfigError(f"The settings file {str(file)!r} has an unknown key {key!r}; remove it.")
    return values


def _validated(values: dict[str, Any], file: Path) -> Settings:
    try:
        return Settings.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        key = next((flag for flag, name in _FLAGS.items() if name == key), key)
        raise ConfigError(
            f"The setting {key!r} cannot be {first.get('input')!r}: {first['msg'].lower()};"
            f" change the flag --{key.replace('_', '-')} or the entry in {str(file)!r}."
        ) from error
