"""How long it takes from an edit of a kernel to the judge's in-loop verdict on it.

    python -m bench.edit_to_verdict [--target cpu]
    python -m bench.edit_to_verdict --target cuda [--published CLONE] NAME=FILE [...]

NAME is a folder of bench/edits/ (axpby, matmul, softmax, reduction, row_scale), FILE the operator that its kernel
computes; on `cpu` it is examples/diag_matmul with the kernel of its recorded run. An edit changes a source under
kernels/ and leaves the rest; between two edits there is a pause, as a model takes for its next reply. Before them the
machine's cache, a new one, is empty in a first run and filled in a second; both are timed from the start of the sandbox
to the first verdict. Where a sandbox with a model's commands in it gets no cache, there is no second run. With a clone
of https://github.com/BytedTsinghua-SIA/CUDA-Agent the same kernel, bound in its style, goes through its compile,
verification and profiling scripts as well.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cuda_agent.config import Settings
from cuda_agent.installing import Rules, write_files
from cuda_agent.judging import Judge
from cuda_agent.operators import load
from cuda_agent.resources import tree, workspace_template
from cuda_agent.runs.baseline import keep_baseline
from cuda_agent.runs.place import Place, choose
from cuda_agent.runs.sandboxes import Opened, opened
from cuda_agent.sandbox.cache import VARIABLE
from cuda_agent_judge.report import Report

ROOT = Path(__file__).resolve().parents[1]
EDITS = ROOT / "bench" / "edits"
UNCONFINED = (
    "this sandbox is not confined (no bwrap that works here): what a model starts could write to the machine's cache,"
    " so its judge has none"
)


@dataclass(frozen=True)
class Case:
    """A kernel and the operator that it computes."""

    name: str
    operator: Path
    folder: Path
    """model_new.py and kernels/."""


@dataclass
class Times:
    """Seconds from edit to verdict."""

    runs: list[float]
    """From the start of the sandbox to the first verdict, in a first run and, where it has a cache, a second."""
    compiled: list[int]
    """Libraries that were compiled for the baseline in each."""
    edits: list[float] = field(default_factory=list)
    last: Report | None = None
    published: dict[str, float] = field(default_factory=dict)


def main() -> int:
    """Measure every case and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", metavar="NAME=FILE")
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--edits", type=int, default=3)
    parser.add_argument("--pause", type=float, default=5.0, help="seconds between a verdict and the next edit")
    parser.add_argument("--published", type=Path, help="a clone of the published work directory")
    options = parser.parse_args()
    print("| operator | first run s | second run s | edit to verdict s | published s | times less | verdict | calls |")
    print("|---|---|---|---|---|---|---|---|")
    for case in cases(options.cases):
        with tempfile.TemporaryDirectory() as cache:
            os.environ[VARIABLE] = cache
            times = measured(case, options.target, options.edits, options.pause)
        if options.published:
            times.published = published(case, options.published)
        print(row(case, times), flush=True)
        compiled = " and ".join(map(str, times.compiled))
        print(f"<!-- compiled {compiled}; {phases(times)} {json.dumps(times.published)} -->", flush=True)
    return 0


def cases(words: list[str]) -> list[Case]:
    """Read NAME=FILE; without any the CPU's case."""
    pairs = [word.partition("=")[::2] for word in words]
    found = [Case(name, Path(file), EDITS / name) for name, file in pairs]
    recorded = ROOT / "examples" / "runs" / "diag_matmul" / "best"
    return found or [Case("diag_matmul", ROOT / "examples" / "diag_matmul" / "model.py", recorded)]


def measured(case: Case, target: Literal["cpu", "cuda"], edits: int, pause_s: float) -> Times:
    """Take the first verdict of two runs and, in the last, one after each edit; sandbox and judge are as in a run."""
    settings = Settings.model_validate({"operator": case.operator, "sandbox": "local", "target": target})
    place = choose(settings)
    times = Times([], [])
    runs = 2 if place.cache_inside(model=True) else 1
    if runs == 1:
        why = UNCONFINED if place.confinement is None else place.choices[-1]
        print(f"No second run: {why}", file=sys.stderr)
    for number in range(runs):
        began = time.monotonic()
        keep_baseline(place, load(case.operator), settings)
        with tempfile.TemporaryDirectory() as folder, opened(place, workspace=Path(folder) / "workspace") as inside:
            judge = _judge(case, settings, place, inside)
            times.last = judge.verdict()
            times.runs.append(time.monotonic() - began)
            times.compiled.append(_compiled(place, inside, since_s=time.time() - times.runs[-1]))
            if number == runs - 1:
                _edit(case, place, inside, judge, times, edits, pause_s)
    return times


def _edit(case: Case, place: Place, inside: Opened, judge: Judge, times: Times, edits: int, pause_s: float) -> None:
    files = tree(case.folder)
    source = next(name for name in sorted(files) if name.startswith("kernels/") and "_binding" not in name)
    for number in range(edits):
        time.sleep(pause_s)
        began = time.monotonic()
        _write(inside, place, {source: files[source] + f"\n// edit {number}\n".encode()})
        times.last = judge.verdict()
        times.edits.append(time.monotonic() - began)


def _judge(case: Case, settings: Settings, place: Place, inside: Opened) -> Judge:
    """Bring the judge up as a run does, with the kernel in the workspace."""
    judge = Judge(inside.trusted, python=place.python, judge_home=place.judge_home)
    rules = Rules.of(
        settings, place.target, model_shares_uid=place.model_shares_uid, cache=place.cache_inside(model=True)
    )
    judge.install(load(case.operator), rules)
    judge.served = inside.serve_judge()
    judge.analyze()
    files = {name: data for name, data in tree(case.folder).items() if _ours(name)}
    _write(inside, place, tree(workspace_template()) | files)
    return judge


def _compiled(place: Place, inside: Opened, *, since_s: float) -> int:
    """Count what was compiled for baselines since then: copies bear the times of what they were copied from."""
    folders = [Path(inside.trusted.state_dir) / "session" / "cache", *([Path(place.cache)] if place.cache else [])]
    made = {path.name for folder in folders for path in folder.rglob("*.so") if path.stat().st_mtime >= since_s}
    return len(made)


def _ours(name: str) -> bool:
    return name == "model_new.py" or name.startswith("kernels/")


def _write(inside: Opened, place: Place, files: Mapping[str, bytes]) -> None:
    write_files(inside.sandbox, place.python, {f"{inside.sandbox.workspace}/{n}": data for n, data in files.items()})


def published(case: Case, clone: Path) -> dict[str, float]:
    """Seconds of the published scripts on the same kernel, by script; each starts anew after every edit."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "agent_workdir"
        shutil.copytree(clone / "agent_workdir", place)
        shutil.rmtree(place / "kernels")
        shutil.copytree(case.folder / "kernels", place / "kernels", ignore=shutil.ignore_patterns("*_binding.cpp"))
        shutil.copytree(case.folder / "published", place / "kernels", dirs_exist_ok=True)
        shutil.copyfile(case.operator, place / "model.py")
        shutil.copyfile(case.folder / "model_new.py", place / "model_new.py")
        steps = {
            "compile": ["bash", "utils/compile.sh"],
            "verification": ["python3", "-m", "utils.verification"],
            "profiling": ["python3", "-m", "utils.profiling"],
        }
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
        times = {}
        for name, command in steps.items():
            began = time.monotonic()
            done = subprocess.run(
                command, cwd=place, env={**os.environ, "PATH": path}, capture_output=True, text=True, check=False
            )
            if done.returncode:
                print(f"{case.name}: {name} failed: {(done.stdout + done.stderr)[-600:]}", file=sys.stderr)
            times[name] = round(time.monotonic() - began, 1)
        return times


def row(case: Case, times: Times) -> str:
    """Make one line of the table."""
    edit = statistics.median(times.edits) if times.edits else float("nan")
    theirs = sum(times.published.values())
    last = times.last
    calls = f"{last.checked_calls} checked" if last else ""
    if last and "submission" in last.latency_ms:
        calls += f", {last.latency_ms['submission'].calls} timed"
    cells = [
        case.name,
        f"{times.runs[0]:.1f}",
        f"{times.runs[1]:.1f}" if len(times.runs) > 1 else "",
        f"{edit:.2f} ({min(times.edits, default=edit):.2f} to {max(times.edits, default=edit):.2f})",
        f"{theirs:.1f}" if theirs else "",
        f"{theirs / edit:.1f}" if theirs else "",
        last.status if last else "",
        calls,
    ]
    return "| " + " | ".join(cells) + " |"


def phases(times: Times) -> str:
    """The stages of the last verdict, longest first."""
    known = times.last.phases if times.last else {}
    return ", ".join(f"{name} {took:.2f}" for name, took in sorted(known.items(), key=lambda item: -item[1])[:14])


if __name__ == "__main__":
    raise SystemExit(main())
