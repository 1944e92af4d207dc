"""How a run stands, by its verdicts as they come: what a person is shown as the best so far."""

import math
from collections.abc import Mapping
from typing import Any


class Standing:
    """The submissions that passed and were not refuted."""

    def __init__(self) -> None:
        self._passed: dict[str, tuple[bool, bool, float]] = {}
        """By submission: whether it has a final win, a final verdict, and its speedup."""

    def hear(self, report: Mapping[str, Any]) -> bool:
        """Note a verdict; True where it measured a speedup."""
        one = report.get("speedup", {}).get(report.get("headline", "compile"))
        status, key = report.get("status"), str(report.get("submission_sha256", ""))
        if one is not None and status in ("win", "tie", "slower") and math.isfinite(one["median"]):
            final = bool(report.get("final"))
            self._passed[key] = (final and status == "win", final, float(one["median"]))
            return True
        if status != "inconclusive":
            self._passed.pop(key, None)  # refuted: it is the best no more
        return False

    @property
    def best(self) -> float | None:
        """The speedup of the best: a final win before a final verdict before the fastest; None where nothing passed."""
        return max(self._passed.values())[-1] if self._passed else None
