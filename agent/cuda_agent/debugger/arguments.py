"""A call's arguments as a person edits them: `key=value`, dotted keys into lists, or a text in an editor."""

import copy
import json
import re
from collections.abc import Mapping
from typing import Any

from cuda_agent.errors import UsageError
from cuda_agent.llm.model import ToolCall, ToolSpec

_ASSIGNMENT = re.compile(r"([\w.-]+)=(.*)", re.S)


def assignment(text: str) -> tuple[str, str] | None:
    """Split `key=value`; None where the text is no such thing."""
    found = _ASSIGNMENT.fullmatch(text)
    return (found[1], found[2]) if found else None


def text_of(arguments: Mapping[str, Any], key: str) -> str:
    """Return the value at a dotted key as a text to edit.

    Raises:
        UsageError: there is no such key.
    """
    value = _holder(arguments, key)[_step(_holder(arguments, key), key)]
    return value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False)


def with_value(arguments: Mapping[str, Any], key: str, text: str, spec: ToolSpec | None) -> dict[str, Any]:
    """Return the arguments with the value at a dotted key replaced.

    A text stays a text; anything else is read as JSON.

    Raises:
        UsageError: there is no such key, or the value is not JSON where it must be.
    """
    changed = copy.deepcopy(dict(arguments))
    holder = _holder(changed, key)
    if isinstance(holder, dict) and key.rpartition(".")[2] not in holder:
        known = (spec.parameters if spec else {}).get("properties", {})
        if key in known:
            holder[key] = text if known[key].get("type", "string") == "string" else _parsed(text, key)
            return changed
    step = _step(holder, key)
    holder[step] = text if isinstance(holder[step], str) else _parsed(text, key)
    return changed


def as_document(call: ToolCall) -> str:
    """Return the whole call as JSON for an editor."""
    arguments = call.arguments if call.arguments is not None else call.raw_arguments
    return json.dumps({"name": call.name, "arguments": arguments}, indent=2, ensure_ascii=False) + "\n"


def from_document(text: str) -> tuple[str, dict[str, Any]]:
    """Read what `as_document` wrote and a person edited.

    Raises:
        UsageError: it is no JSON object of this form.
    """
    try:
        value = json.loads(text)
        name, arguments = value["name"], value["arguments"]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f'The edited call is not JSON of the form {{"name": ..., "arguments": {{...}}}} ({error});'
            " the call is unchanged."
        ) from error
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise UsageError("The edited call needs a name and an object of arguments; the call is unchanged.")
    return name, arguments


def arguments_for(spec: ToolSpec, text: str) -> dict[str, Any]:
    """Read the arguments of a person's own call: a JSON object, or a plain text where the tool needs just one.

    Raises:
        UsageError: it is neither.
    """
    try:
        value = json.loads(text)
    except ValueError as error:
        required = spec.parameters.get("required", [])
        if text and not text.startswith("{") and len(required) == 1:
            return {required[0]: text}
        why = f" ({error})" if text else ""
        raise UsageError(
            f"The arguments of {spec.name} must be a JSON object{why}, as in `run {spec.name} {_example(required)}`."
        ) from error
    if not isinstance(value, dict):
        raise UsageError(f"The arguments of {spec.name} must be a JSON object, not {text!r}.")
    return value


def _example(required: list[str]) -> str:
    return "{" + ", ".join(f'"{name}": ...' for name in required) + "}"


def _parsed(text: str, key: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UsageError(f"The value of {key!r} is no text, so it must be JSON, not {text!r} ({error}).") from error


def _holder(arguments: Any, key: str) -> Any:
    """Return the object or list that holds the last part of a dotted key."""
    here = arguments
    for part in key.split(".")[:-1]:
        here = here[_step(here, part)]
    return here


def _step(here: Any, key: str) -> str | int:
    part = key.rpartition(".")[2]
    if isinstance(here, dict) and part in here:
        return part
    if isinstance(here, list) and part.isdigit() and int(part) < len(here):
        return int(part)
    there = ", ".join(map(str, here if isinstance(here, dict) else range(len(here)))) if here else ""
    raise UsageError(f"The call has no {key!r}; there is {there or 'nothing'}.")
