"""What run.json says: settings, environment, how the run stands and what came out of it."""

import dataclasses
import platform
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cuda_agent import __version__
from cuda_agent.config import Settings
from cuda_agent.llm.model import Usage
from cuda_agent.loop.memory import Candidate
from cuda_agent.loop.stop import Stop
from cuda_agent.operators import Operator
from cuda_agent.run_dir import RunDir


class Record:
    """The document of one run, saved at each change of its status."""

    def __init__(self, run: RunDir, operator: Operator, settings: Settings, place: Mapping[str, str]) -> None:
        self._run = run
        self.document: dict[str, Any] = {
            "operator": {"name": operator.name, "path": str(operator.path.resolve()), "sha256": operator.sha256},
            "settings": settings.model_dump(mode="json"),
            "versions": {"cuda-agent": __version__, "python": platform.python_version(), "host": platform.platform()},
            "place": dict(place),
            "environment": {},
            "status": "running",
            "created": _now(),
            "finished": None,
            "turns": 0,
            "stop": None,
            "exit_code": None,
            "error": None,
            "usage": None,
            "held": {},
            "result": None,
        }
        run.save(self.document)

    @classmethod
    def reopened(
        cls, run: RunDir, document: Mapping[str, Any], settings: Settings, place: Mapping[str, str]
    ) -> "Record":
        """Go on with the document of a run; what came out of it so far stands."""
        run.reopen()
        record = cls.__new__(cls)
        record._run = run
        went_on = {"at": _now(), "model": settings.model, "after": document.get("stop"), "status": document["status"]}
        record.document = {
            **document,
            "settings": settings.model_dump(mode="json"),
            "place": dict(place),
            "resumed": [*document.get("resumed", []), went_on],
            **{"status": "running", "finished": None, "stop": None, "exit_code": None, "error": None},
        }
        run.save(record.document)
        return record

    def screened(self, environment: Mapping[str, str]) -> None:
        """Note what the judge runs on; it accepted the operator."""
        self.document["environment"] = dict(environment)
        self._run.save(self.document)

    def used(self, held: Mapping[str, float]) -> None:
        """Add what the judge held and waited for, in seconds by kind; saved with the next change of the status."""
        before = self.document.get("held") or {}
        total = {kind: round(before.get(kind, 0.0) + held.get(kind, 0.0), 3) for kind in {**before, **held}}
        self.document["held"] = total

    def reached(self, turns: int, usage: Sequence[Usage], best: Candidate | None) -> None:
        """Note where the loop stands; saved with the next change of the status."""
        self.document |= {"turns": turns, "usage": _sum(usage), "result": _result(best, self._run.best)}

    def finish(self, stop: Stop) -> None:
        """Say how the loop ended."""
        status = "interrupted" if stop.reason.exit_code == 130 else "failed" if stop.reason.exit_code == 3 else "done"
        kind = {"kind": stop.kind} if stop.kind else {}
        self.document["stop"] = {"reason": str(stop.reason), "detail": stop.detail, **kind}
        self._end(status, stop.reason.exit_code)

    def fail(self, message: str, exit_code: int) -> None:
        """Say what else ended the run."""
        self.document["error"] = message
        self._end("failed", exit_code)

    def _end(self, status: str, exit_code: int) -> None:
        self.document |= {"status": status, "exit_code": exit_code, "finished": _now()}
        self._run.save_last(self.document)


def _result(best: Candidate | None, folder: Path) -> dict[str, Any] | None:
    if best is None:
        return None
    report = best.report
    return {
        "status": report.status,
        "reason": report.reason,
        "final": report.final,
        "headline": report.headline,
        "speedup": {name: dataclasses.asdict(one) for name, one in report.speedup.items()},
        "latency_ms": {name: dataclasses.asdict(one) for name, one in report.latency_ms.items()},
        "peak_memory_bytes": dict(report.peak_memory_bytes),
        "performance": report.performance,
        "checked_calls": report.checked_calls,
        "target": report.target,
        "rules": dict(report.rules),
        "isolation": report.isolation,
        "notes": list(report.notes),
        "turn": best.turn,
        "submission_sha256": report.submission_sha256,
        "kernel": str(folder),
    }


def _sum(usage: Sequence[Usage]) -> dict[str, Any]:
    costs = [one.cost_usd for one in usage if one.cost_usd is not None]
    return {
        "input_tokens": sum(one.input_tokens for one in usage),
        "output_tokens": sum(one.output_tokens for one in usage),
        "cached_tokens": sum(one.cached_tokens for one in usage),
        "cost_usd": sum(costs) if len(costs) == len(usage) else None,
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
