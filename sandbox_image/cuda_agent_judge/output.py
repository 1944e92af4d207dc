"""How a report is shown, written and turned into an exit code."""

import contextlib
import os
import tempfile
from pathlib import Path

from cuda_agent_judge.report import Report

UNFINISHED = ".new-"
"""How the name begins of what is not whole yet; a judge that is killed may leave such a file."""


def exit_code(report: Report) -> int:
    """0 passed, 1 not passed, 2 the operator cannot be used."""
    if report.status == "operator_error":
        return 2
    return 0 if report.passed else 1


def show(report: Report, *, as_json: bool) -> None:
    """Print the lines for people and models, and the JSON line where asked."""
    for line in lines(report):
        print(line)
    if as_json:
        print(report.to_json())
    print(end="", flush=True)


def lines(report: Report) -> list[str]:
    """What a report says in short lines."""
    mark = "[PASS]" if report.passed else "[FAIL]"
    shown = [f"{mark} {report.status}: {report.reason}"]
    shown += _phases(report)
    shown += [*report.details.rstrip().splitlines(), *report.performance_lines]
    shown += [
        f"{mark} output {error.output or '0'} ({error.dtype}): relative L2 {error.relative_l2:.2e} "
        f"(limit {error.relative_l2_limit:.1e}), largest error {error.max_error:.2e} "
        f"(limit {error.max_error_limit:.1e})"
        for error in report.errors
    ]
    if report.command == "compile" and report.build_s is not None:
        shown.append(f"[TIME] Compilation took {report.build_s:.2f}s")
    shown += _times(report)  # last: that is what whoever skims it sees
    return shown + [f"note: {note}" for note in report.notes]


def _times(report: Report) -> list[str]:
    shown = [
        f"[TIME] {side}: {time.median * 1000:.1f}us (quartiles {time.q25 * 1000:.1f} to {time.q75 * 1000:.1f}us, "
        f"{time.calls} calls)"
        for side, time in report.latency_ms.items()
    ]
    shown += [
        f"[TIME] speedup over {side}: {gain.median:.3f}x [{gain.low:.3f}, {gain.high:.3f}]"
        for side, gain in report.speedup.items()
    ]
    named = (("Torch Baseline", "eager"), ("Torch Compile", "compile"), ("CUDA Extension", "submission"))
    times = [
        f"{name}: {report.latency_ms[side].median * 1000:.3f}us" for name, side in named if side in report.latency_ms
    ]
    return shown + ([", ".join(times)] if times else [])


def _phases(report: Report) -> list[str]:
    """Where the time of the command went, stages of a tenth of a second and more."""
    took = {name: seconds for name, seconds in report.phases.items() if "." not in name and seconds >= 0.1}
    total = took.pop("total", None)
    if total is None or not took:
        return []
    stages = ", ".join(f"{name} {seconds:.1f}" for name, seconds in took.items())
    return [f"[TIME] The judge took {total:.1f}s ({stages})"]


def write_report(path: Path, report: Report) -> None:
    """Write the report in one step: a reader sees the whole of it or none."""
    write_whole(path, report.to_json().encode() + b"\n")


def write_whole(path: Path, data: bytes, *, mode: int = 0o644) -> None:
    """Put a file in place by one rename; its folder is made where it is missing.

    Raises:
        OSError: it could not be written; what was there is unchanged, and nothing else is left.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=UNFINISHED)
    try:
        with open(handle, "wb") as file:
            file.write(data)
            os.fchmod(file.fileno(), mode)
        os.replace(name, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise
