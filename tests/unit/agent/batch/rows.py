"""Rows of results as a batch would have them."""

from typing import Any

from cuda_agent.batch.results import Category, Ratio, Row


def row(name: str, over_compile: float | None = None, over_eager: float | None = None, **more: Any) -> Row:
    """A counted operator; with a speedup its kernel is right."""
    given: dict[str, Any] = {
        **{"job": name, "operator": name, "key": f"{name}.py", "level": "", "model": "builtin", "sha256": name},
        **{"category": Category.COUNTED, "final": True, "run": f"runs/{name}"},
    }
    if over_compile is not None or over_eager is not None:
        given |= {"status": "win", "rules": {"target": "cpu", "precision": "ieee"}, "isolation": "shared-uid"}
    for key, value in (("over_compile", over_compile), ("over_eager", over_eager or over_compile)):
        given[key] = Ratio(value, value * 0.9, value * 1.1) if value is not None else None
    return Row(**{**given, **more})
