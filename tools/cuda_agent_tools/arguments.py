"""A tool's arguments: checked with pydantic, refused in one sentence, described to the model in a small schema."""

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from cuda_agent_tools.tool import ToolError

LEFT_OUT = ("title", "$defs", "additionalProperties")
SHOWN = 60
"""How much of a wrong value is repeated to the model."""


class Arguments(BaseModel):
    """Base of every tool's arguments. A field's description tells the model what is expected."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def parse[T: Arguments](kind: type[T], arguments: Mapping[str, Any], *, tool: str) -> T:
    """Check a call's arguments.

    Raises:
        ToolError: one sentence that names the field and what is expected.
    """
    try:
        return kind.model_validate(dict(arguments))
    except ValidationError as error:
        raise ToolError(f"{tool}: {_sentence(kind, error)}") from None


def decode_list(value: Any) -> Any:
    """Read a list that came as a JSON string, a common slip of models; anything else is left as it is."""
    if isinstance(value, str):
        try:
            decoded = json.loads(value)
        except ValueError:
            return value
        return decoded if isinstance(decoded, list) else value
    return value


def schema(kind: type[Arguments]) -> dict[str, Any]:
    """Return the JSON Schema of the arguments without titles and references."""
    full = kind.model_json_schema()
    small = _small(full, full.get("$defs", {}))
    assert isinstance(small, dict)
    return small


def _small(node: Any, definitions: Mapping[str, Any]) -> Any:
    if isinstance(node, list):
        return [_small(item, definitions) for item in node]
    if not isinstance(node, dict):
        return node
    if "$ref" in node:
        return _small(definitions[node["$ref"].rpartition("/")[2]], definitions)
    small = {}
    for key, value in node.items():
        if key == "properties":
            small[key] = {name: _small(item, definitions) for name, item in value.items()}
        elif key not in LEFT_OUT and not (key == "description" and "properties" in node):  # a class's docstring
            small[key] = _small(value, definitions)
    return small


def _sentence(kind: type[Arguments], error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = _path(first["loc"])
    if first["type"] == "missing":
        return f"`{where}` is missing{_takes(kind, first['loc'])}"
    if first["type"] == "extra_forbidden":
        return f"there is no argument `{where}`{_takes(kind, first['loc'])}"
    if first["type"] in ("too_short", "string_too_short"):
        return f"`{where}` must not be empty"
    said = first["msg"].removeprefix("Value error, ").replace("Input should be", "should be").rstrip(".")
    got = repr(first["input"])
    return f"`{where}` {said}, got {got if len(got) <= SHOWN else got[:SHOWN] + '...'}"


def _path(parts: tuple[int | str, ...]) -> str:
    text = ""
    for part in parts:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _takes(kind: type[Arguments], where: tuple[int | str, ...]) -> str:
    if len(where) > 1:
        return ""  # inside a list: the field's path says enough
    names = (name if field.is_required() else f"{name} (optional)" for name, field in kind.model_fields.items())
    return f"; the arguments are {', '.join(names)}"
