"""A recorded run once more: its calls are executed anew in a fresh sandbox, and the outcome is compared."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cuda_agent.config import Settings, resolve
from cuda_agent.errors import ConfigError
from cuda_agent.history import read
from cuda_agent.llm.replay import recorded, replay_model
from cuda_agent.run_dir import RunDir, load_document
from cuda_agent.runs.beginning import kept_operator
from cuda_agent.runs.difference import Difference, compare
from cuda_agent.runs.single import Outcome, optimize
from cuda_agent.trajectory import Listener

_KEPT = ("precision", "libraries", "output_lifetime", "polish", "max_turns", "operator_timeout_s")


@dataclass(frozen=True)
class Replayed:
    """A record held against a new execution of it."""

    outcome: Outcome
    differences: list[Difference]
    """One entry for each call, the same ones too."""
    status_then: str
    """Of the verdict that stands in run.json, or how the run stopped where there is none."""
    status_now: str

    @property
    def same_class(self) -> bool:
        """Whether the verdict is of the same kind."""
        return self.status_then == self.status_now


def execute(run: Path, flags: Mapping[str, Any], environ: Mapping[str, str], *, listener: Listener) -> Replayed:
    """Take a run's replies as a model's and run them in a new sandbox.

    `flags` are settings that differ from the record's (sandbox, python, run_dir).

    Raises:
        ConfigError: `run` is no run's folder, or it recorded no reply.
        OperatorError, InfrastructureError, SandboxError: as `optimize`.
    """
    document = load_document(run)
    events = read(RunDir(run).trajectory)
    replies = recorded(events)
    if not replies:
        raise ConfigError(f"{str(run)!r} recorded no reply of a model; there is nothing to execute.")
    operator = kept_operator(RunDir(run), document)
    settings = settings_of(document, flags, environ)
    model = replay_model(replies, name=str(document["settings"]["model"]))
    outcome = optimize(settings, listener=listener, model=model, operator=operator)
    now = read(RunDir(outcome.folder).trajectory)
    return Replayed(outcome, compare(events, now), status(document), status(outcome.document))


def status(document: Mapping[str, Any]) -> str:
    """Return the class of a run's verdict, or the reason of its stop where nothing was judged."""
    result = document.get("result")
    if result:
        return str(result["status"])
    stop = document.get("stop")
    return str(stop["reason"]) if stop else str(document.get("status", "running"))


def settings_of(document: Mapping[str, Any], flags: Mapping[str, Any], environ: Mapping[str, str]) -> Settings:
    """The record's rules, limits and target, which verdicts depend on; where an old one has none, the default."""
    defaults = {name: Settings.model_fields[name].default for name in _KEPT}
    kept = {name: document["settings"].get(name, default) for name, default in defaults.items()}
    fixed = {"operator": document["operator"]["path"], "target": document["place"]["target"], "model": "builtin"}
    return resolve({**kept, **fixed, **flags}, environ)
