"""Goes on with a run that another process left, however that one ended."""

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile
from cuda_agent.history import History, mend, read_history
from cuda_agent.llm.model import Model
from cuda_agent.loop.memory import Memory
from cuda_agent.loop.recall import Recall, recall
from cuda_agent.loop.stop import Limits
from cuda_agent.run_dir import RunDir, load_document
from cuda_agent.runs.beginning import Beginning, Past, kept_operator
from cuda_agent.runs.models import check, make
from cuda_agent.runs.place import Place, choose
from cuda_agent.runs.record import Record
from cuda_agent.runs.session import Drive, by_itself
from cuda_agent.runs.single import Outcome, carry_out
from cuda_agent.snapshots import Snapshots
from cuda_agent.trajectory import Listener, MessageAdded, Resumed, Rewound, RunStarted, SandboxStarted, TurnEnded
from cuda_agent.workspace import submission_of

OF_THE_MODEL = ("model", "api_base", "api_key_env", "temperature", "reasoning_effort", "context_tokens")
CHANGEABLE = (*OF_THE_MODEL, "max_turns", "time_limit_s", "polish", "gpu", "python")
"""Settings that may differ from those of the run's start; the rules of its verdicts may not."""


def resume(
    folder: Path,
    changes: Mapping[str, Any] | None = None,
    *,
    listener: Listener,
    model: Model | None = None,
    drive: Drive = by_itself,
    ended_too: bool = False,
) -> Outcome:
    """Go on with a run; `changes` are settings by name, of those in `CHANGEABLE`.

    A run that came to its own end goes on only where a change gives it something to do, or with `ended_too`.

    Raises:
        ConfigError: it is no run, is running, is damaged, or has nothing left to do.
        InfrastructureError, SandboxError: the machinery failed; run.json says so too.
    """
    document = load_document(folder)
    before = settings_of(document, {})
    settings = settings_of(document, {key: value for key, value in (changes or {}).items() if value is not None})
    if model is None and any(getattr(settings, name) != getattr(before, name) for name in OF_THE_MODEL):
        check(settings, os.environ)
    if not ended_too:
        _refuse_ended(document, before, settings, model)
    run = RunDir(folder.absolute())
    with run.open_trajectory() as log:
        operator = kept_operator(run, document)
        past = past_of(run, log, more_polish=settings.polish - before.polish)
        chosen = model or make(settings, os.environ, replies=past.replies.get(settings.model, 0))
        place = _same_place(settings, document["place"])
        record = Record.reopened(run, document, settings, place.described)
        return carry_out(Beginning(settings, operator, place, run, record, log, past), chosen, listener, drive)


def recalled(run: RunDir, history: History) -> Recall:
    """Fold a run's history.

    Raises:
        ConfigError: it contradicts itself, or the snapshots are damaged.
    """
    with Snapshots(run.snapshots) as snapshots:
        return recall(
            history.events, history.times, lambda name: submission_of(snapshots, name), finals=Limits().finals
        )


def past_of(run: RunDir, log: LineFile, *, more_polish: int = 0) -> Past:
    """Read what happened so far, and mend what a crash left of it; `log` is the locked trajectory.

    Raises:
        ConfigError: something before its end is damaged.
    """
    history = read_history(run.trajectory)
    if not history.events and run.snapshots.exists():
        raise ConfigError(f"{str(run.trajectory)!r} is empty, but the run had begun; restore it from a copy.")
    mend(log, history)
    with Snapshots(run.snapshots) as snapshots:  # what is torn off is cut here, and said once
        notices = (*history.notices, *snapshots.notices)
    found = recalled(run, history)
    memory = found.memory()
    sandboxes = [event for event in history.events if isinstance(event, SandboxStarted)]
    return Past(
        events=len(history.events),
        notices=notices,
        memory=_with_polish(memory, more_polish),
        briefed=0 in found.turns,
        turn=max(found.turns, default=0),
        replies=_replies(history),
        workspaces=tuple(one.workspace for one in sandboxes),
        state_dirs=tuple(one.state_dir for one in sandboxes),
    )


def _replies(history: History) -> dict[str, int]:
    """Count the replies of the model that is at work at the end, since it took over and as far as they count."""
    name, count = "", 0
    ends: dict[int, tuple[str, int]] = {}
    for event in history.events:
        match event:
            case RunStarted() | Resumed() if event.settings.get("model") != name:
                name, count = str(event.settings.get("model")), 0
            case MessageAdded(role="assistant"):
                count += 1
            case TurnEnded():
                ends[event.turn] = (name, count)
            case Rewound():
                then, before = ends[event.turn]
                count = before if then == name else 0
            case _:
                pass
    return {name: count}


def _with_polish(memory: Memory, more: int) -> Memory:
    left = memory.counts.polish_left
    if left is None or not more:
        return memory
    return replace(memory, counts=replace(memory.counts, polish_left=max(0, left + more)))


def settings_of(document: Mapping[str, Any], changes: Mapping[str, Any]) -> Settings:
    """Return the settings of a run with these changes.

    Raises:
        ConfigError: one of them cannot be changed, or not to that.
    """
    for key in changes:
        if key not in CHANGEABLE:
            raise ConfigError(f"{key!r} of a run cannot be changed; start another run with `cuda-agent optimize`.")
    try:
        settings = Settings.model_validate({**document["settings"], **changes})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(f"The setting {key!r} cannot be {first.get('input')!r}: {first['msg'].lower()}.") from error
    return settings


def _refuse_ended(document: Mapping[str, Any], before: Settings, settings: Settings, model: Model | None) -> None:
    if document.get("status") != "done":
        return
    reason = (document.get("stop") or {}).get("reason", "")
    if reason == "target_reached" and settings.polish <= before.polish:
        raise ConfigError("The run reached its target; add --polish N to let it try for more, or start another run.")
    limits = ("max_turns", "time_limit_s", "polish", "model")
    if model is None and all(getattr(before, key) == getattr(settings, key) for key in limits):
        raise ConfigError(
            f"The run has ended ({reason.replace('_', ' ')}): change a limit (--max-turns, --time-limit, --polish)"
            " or name another --model."
        )


def _same_place(settings: Settings, place: Mapping[str, str]) -> Place:
    """Choose as at the start: verdicts for another target would not compare."""
    update: dict[str, Any] = {"sandbox": place["sandbox"], "target": place["target"]}
    if settings.python is None and place["sandbox"] == "local" and os.path.exists(place["python"]):
        update["python"] = Path(place["python"])
    return choose(settings.model_copy(update=update))
