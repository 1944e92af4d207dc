"""Records one call with torch's profiler: the kernels and operations that it starts. Never a call that is timed."""

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from cuda_agent_judge.timeline import CALL, Event

_profile, _Activity = torch.profiler.profile, torch.profiler.ProfilerActivity
_record_function = torch.profiler.record_function


def marked(call: Callable[..., Any]) -> Callable[..., Any]:
    """The same call inside the range that a timeline is read from."""

    def run(*args: Any, **kwargs: Any) -> Any:
        with _record_function(CALL):
            return call(*args, **kwargs)

    return run


def record(run: Callable[[], Any], target: str) -> list[Event]:
    """Run something that makes one marked call; returns the profiler's events."""
    activities = [_Activity.CPU] + ([_Activity.CUDA] if target == "cuda" else [])
    with _profile(activities=activities) as recorded:
        run()
        if target == "cuda":
            torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        recorded.export_chrome_trace(str(file))
        events: list[Event] = json.loads(file.read_text(errors="replace"))["traceEvents"]
    return events
