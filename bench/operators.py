"""Run `cuda-agent optimize` on operators and print the table of docs/measurements.md.

    python -m bench.operators [--target cuda] [--source "KernelBench 423217d"] OPERATOR.py [...]

Each row is one run with the model `builtin`; times are the final verdict's, all sides interleaved with each other.
Run folders go to a temporary folder unless --runs names one.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

HEADER = (
    "| operator | eager ms | compile ms | submission ms | over compile [95 %] | over eager | verdict | stopped |\n"
    "|---|---|---|---|---|---|---|---|"
)


def main() -> int:
    """Run every operator in turn and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("operators", nargs="+", type=Path)
    parser.add_argument("--target", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--python", help="the sandbox's Python")
    parser.add_argument("--runs", type=Path, help="where the run folders go")
    parser.add_argument("--source", default="", help="where the operators come from, with its commit")
    parser.add_argument("--limit-s", type=float, default=240.0, help="limit of one run in seconds")
    options = parser.parse_args()
    runs = options.runs or Path(tempfile.mkdtemp(prefix="cuda-agent-bench-"))
    runs.mkdir(parents=True, exist_ok=True)
    results = [(path, run(path, runs, options)) for path in options.operators]
    print(HEADER)
    for path, result in results:
        print(row(path, result))
    print(f"\n{environment(results)}{'; operators: ' + options.source if options.source else ''}")
    return 0


def run(path: Path, runs: Path, options: argparse.Namespace) -> dict[str, Any]:
    """Run one operator; the result is the program's own JSON, or {"error": ...}."""
    command = [sys.executable, "-m", "cuda_agent", "optimize", str(path), "--json", "--target", options.target]
    command += ["--run-dir", str(runs / label(path)), "--time-limit", str(options.limit_s)]
    if options.python:
        command += ["--python", options.python]
    print(f"running {path} ...", file=sys.stderr, flush=True)
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        return {"error": f"no result (exit code {done.returncode})"}
    return document


def label(path: Path) -> str:
    """Name a row: the folder of a model.py, else the file."""
    return path.parent.name if path.name == "model.py" else path.stem


def row(path: Path, document: dict[str, Any]) -> str:
    """One line of the table."""
    stopped = document.get("stop") or {}
    result = document.get("result")
    if not result:
        said = document.get("error") or f"{stopped.get('reason')}: {stopped.get('detail')}"
        return f"| {label(path)} | | | | | | {' '.join(str(said).split())} | |"
    latency, speedup = result["latency_ms"], result["speedup"]
    cells = [label(path), *(cell(latency.get(side)) for side in ("eager", "compile", "submission"))]
    cells += [interval(speedup.get("compile")), interval(speedup.get("eager"))]
    return "| " + " | ".join([*cells, result["status"], stopped["reason"]]) + " |"


def cell(latency: dict[str, float] | None) -> str:
    """Show a median in ms with four digits."""
    return f"{latency['median']:.4g}" if latency else ""


def interval(value: dict[str, float] | None) -> str:
    """Show a speedup with its interval."""
    return f"{value['median']:.2f} [{value['low']:.2f}, {value['high']:.2f}]" if value else ""


def environment(results: list[tuple[Path, dict[str, Any]]]) -> str:
    """Say what the judge saw of the machine and which rules it used, from the first run that has a result."""
    for _, document in results:
        if document.get("result"):
            facts = document["environment"] | document["result"]["rules"]
            return "; ".join(f"{key} {value}" for key, value in sorted(facts.items()))
    return "no result"


if __name__ == "__main__":
    raise SystemExit(main())
