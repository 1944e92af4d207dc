"""Time travel: back to the end of an earlier turn, or a new run that goes on from there."""

import os
import shutil
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cuda_agent import files
from cuda_agent.errors import ConfigError
from cuda_agent.history import History, mend, read_history
from cuda_agent.loop.background import running
from cuda_agent.prompting import Prompts
from cuda_agent.resources import prompts_dir
from cuda_agent.run_dir import RunDir, load_document, refuse_existing
from cuda_agent.runs.beginning import relocated
from cuda_agent.runs.kept_state import copy_outputs
from cuda_agent.runs.models import check
from cuda_agent.runs.opening import background_gone
from cuda_agent.runs.resume import recalled, settings_of
from cuda_agent.runs.session import Session
from cuda_agent.trajectory import Forked, Rewound, RunStarted, SandboxStarted, Silent, Trajectory, TurnEnded, line


def turns(run: Path) -> tuple[int, ...]:
    """Return the turns of a run that one can go to, 0 being the briefing.

    Raises:
        ConfigError: it is no run, or damaged.
    """
    found = RunDir(run)
    return recalled(found, read_history(found.trajectory)).turns


def check_turn(run: Path, turn: int) -> None:
    """Refuse a turn that one cannot go to.

    Raises:
        ConfigError: it is none of the run's, or `run` is no run, or damaged.
    """
    there = turns(run)
    if turn not in there:
        known = f"the turns 0 to {max(there)}" if there else "no turn that ended"
        raise ConfigError(f"There is no turn {turn} to go to; {str(run)!r} has {known}.")


def go_to(session: Session, turn: int) -> tuple[str, ...]:
    """Make messages, referee and workspace what they were at the end of `turn`; what came after no longer counts.

    Time and cost stay spent. Returns what could not be put back, a sentence each.

    Raises:
        ConfigError: that turn did not end, or was gone back over.
        WorkspaceError, DiskError, SandboxLost: the workspace is in between; going there again, or resuming, mends it.
    """
    run = session.run
    history = read_history(run.trajectory)
    memory = recalled(run, history).memory_at(turn)
    former = [event for event in history.events if isinstance(event, SandboxStarted)]
    memory = relocated(memory, tuple(one.workspace for one in former), session.sandbox.workspace)
    memory = relocated(memory, tuple(one.state_dir for one in former), session.sandbox.state_dir)
    session.background.stop()  # what they would still write belongs to a time that no longer counts
    files.replace(run.restoring, b"")
    lost = session.workspace.restore(memory.snapshot)
    left = session.agent.turn
    with run.best_kept_aside(left):  # before it is written down: whoever goes on from there replaces best/
        session.trajectory.add(Rewound(turn, left))
        run.restoring.unlink(missing_ok=True)
        session.workspace.snapshots.reset(turn)
        session.agent.restore(memory)
    if gone := running(memory.messages):
        session.agent.say(background_gone(Prompts(prompts_dir()), gone, session.sandbox))
    return lost


def fork(
    run: Path,
    turn: int,
    *,
    changes: Mapping[str, Any] | None = None,
    run_dir: Path | None = None,
    trajectory: Trajectory | None = None,
) -> Path:
    """Make a new run that `resume` goes on with from the end of `turn`, and return its folder; both name each other.

    `changes` are settings as for `resume` (`model` among them). `trajectory` is the open one of `run`, where this
    process works on it.

    Raises:
        ConfigError: there is no such turn, the new folder exists, or another process works on `run`.
        DiskError: the new folder could not be written; nothing is left of it.
    """
    parent = RunDir(run.absolute())
    document = load_document(run)
    refuse_existing(run_dir)
    settings = settings_of(document, {key: value for key, value in (changes or {}).items() if value is not None})
    check(settings, os.environ)
    history = read_history(parent.trajectory)
    memory = recalled(parent, history).memory_at(turn)
    target = (run_dir or _default(parent.path, turn)).absolute()
    child = RunDir.create(target, document["operator"]["name"])
    try:
        _copy(parent, child, history, turn)
        child.save(
            {
                **_kept(document, memory.turn),
                "settings": {**settings.model_dump(mode="json"), "run_dir": str(target)},
                "parent": {"run": str(parent.path), "turn": turn},
            }
        )
        _tell_parent(parent, Forked(turn, str(target), settings.model), trajectory)
    except BaseException:
        child.remove()
        raise
    return target


def _kept(document: Mapping[str, Any], turns: int) -> dict[str, Any]:
    """Return what a child's run.json has of its parent's; nothing came out of it yet."""
    return {
        **{key: document[key] for key in ("operator", "versions", "place", "environment", "created")},
        **{"status": "interrupted", "turns": turns, "finished": None, "stop": None, "exit_code": None},
        **{"error": None, "usage": None, "result": None},
    }


def _copy(parent: RunDir, child: RunDir, history: History, turn: int) -> None:
    """Copy the history up to the end of `turn` as it counts, the snapshots and the operator."""
    at = _end_of(history, turn)
    first = history.events[0]
    if not isinstance(first, RunStarted):
        raise ConfigError(f"{str(parent.trajectory)!r} does not begin with the start of a run.")
    origin = replace(first, parent={"run": str(parent.path), "turn": turn})
    with files.writing(child.path):
        data = parent.trajectory.read_bytes()[history.ends[0] + 1 : history.ends[at] + 1]
        files.replace(child.trajectory, line(origin, 0, datetime.now(UTC)) + b"\n" + data)
        shutil.copytree(parent.snapshots, child.snapshots)
        shutil.copytree(parent.operator, child.operator)
        copy_outputs(parent.state, child.state)


def _end_of(history: History, turn: int) -> int:
    """Return the place of the event that ended `turn`, the last time it did."""
    return max(
        place for place, event in enumerate(history.events) if isinstance(event, TurnEnded) and event.turn == turn
    )


def _tell_parent(parent: RunDir, event: Forked, trajectory: Trajectory | None) -> None:
    if trajectory is not None:
        trajectory.add(event)
        return
    with parent.open_trajectory() as log:
        history = read_history(parent.trajectory)
        mend(log, history)
        Trajectory(log, Silent(), seq=len(history.events)).add(event)


def _default(parent: Path, turn: int) -> Path:
    base = parent.with_name(f"{parent.name}-fork-{turn}")
    path, number = base, 2
    while path.exists() or path.is_symlink():
        path, number = base.with_name(f"{base.name}-{number}"), number + 1
    return path
