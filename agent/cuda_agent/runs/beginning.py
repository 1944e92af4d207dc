"""Where a run begins: anew, or where another process left it."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile
from cuda_agent.llm.model import Message, ToolCall
from cuda_agent.loop.memory import Memory
from cuda_agent.operators import Operator, digest
from cuda_agent.run_dir import RunDir
from cuda_agent.runs.place import Place
from cuda_agent.runs.record import Record


@dataclass(frozen=True)
class Past:
    """What happened before."""

    events: int
    """So many lines the trajectory has."""
    notices: tuple[str, ...]
    """What had to be mended in the run's files."""
    memory: Memory
    briefed: bool
    """The model was told its task."""
    turn: int
    """The last turn that ended."""
    replies: Mapping[str, int]
    """How many replies the model of this name, as it stands in the settings, gave since it took over."""
    workspaces: tuple[str, ...]
    """Every path that the workspace had so far, oldest first."""
    state_dirs: tuple[str, ...] = ()
    """... and the directory of the tools' state."""


@dataclass(frozen=True)
class Beginning:
    """Everything that must be known before a sandbox is started."""

    settings: Settings
    operator: Operator
    place: Place
    run: RunDir
    record: Record
    log: LineFile
    """The trajectory; no other process writes it."""
    past: Past | None = None


def relocated(memory: Memory, former: tuple[str, ...], now: str) -> Memory:
    """Return the memory with every former path of a directory replaced: a fork must not work in its parent's."""
    old = [path for path in dict.fromkeys(former) if path and path != now]
    if not old:
        return memory
    return replace(memory, messages=tuple(_message(message, old, now) for message in memory.messages))


def shell_state_moved(data: bytes, former: tuple[str, ...], now: str) -> bytes:
    """Return the shell's state for a workspace that is elsewhere; an empty one where a path cannot be told apart."""
    old = [path for path in dict.fromkeys(former) if path and path != now]
    if any(not path.isprintable() or "'" in path for path in (*old, now) if old):
        return b""
    text = data.decode("utf-8", "surrogateescape")
    for path in old:
        text = _replaced(_replaced(text, path, now), _quoted(path), _quoted(now))
    return text.encode("utf-8", "surrogateescape")


def kept_operator(run: RunDir, document: Mapping[str, Any]) -> Operator:
    """Return the operator as it was at the run's start, wherever its file is by now.

    Raises:
        ConfigError: the run's folder does not hold it any more.
    """
    about = document["operator"]
    files = run.load_operator()
    if digest(files) != about["sha256"]:
        raise ConfigError(f"{str(run.operator)!r} is not the operator of this run any more; restore it from a copy.")
    return Operator(about["name"], Path(about["path"]), files, about["sha256"])


def _message(message: Message, old: list[str], now: str) -> Message:
    calls = tuple(
        ToolCall(call.id, call.name, _deep(call.arguments, old, now), _deep(call.raw_arguments, old, now))
        for call in message.tool_calls
    )
    return replace(message, content=_deep(message.content, old, now), tool_calls=calls)


def _deep(value: Any, old: list[str], now: str) -> Any:
    if isinstance(value, str):
        for path in old:
            value = _replaced(value, path, now)
        return value
    if isinstance(value, Mapping):
        return {key: _deep(one, old, now) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_deep(one, old, now) for one in value]
    return value


def _replaced(text: str, old: str, new: str) -> str:
    """Replace a path where it ends as a path: what only begins like it stays."""
    if old not in text:
        return text
    parts = text.split(old)
    made = parts[0]
    for part in parts[1:]:
        inside = part[:1].isalnum() or part.startswith(("_", "-"))
        made += (old if inside else new) + part
    return made


def _quoted(path: str) -> str:
    """Quote as bash's `printf %q` does."""
    plain = "/_.-+:,@%="
    return "".join(char if char.isalnum() or char in plain or ord(char) > 127 else f"\\{char}" for char in path)
