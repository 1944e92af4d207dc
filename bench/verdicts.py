"""Judge finished submissions and print the table of docs/measurements.md.

    python -m bench.verdicts [--target cuda] [--source "KernelBench 423217d"] OPERATOR.py=SUBMISSION_DIR [...]

Each row is one final verdict of `cuda-agent judge`: a clean build, fresh processes, all sides interleaved. A document
that `cuda-agent judge --json` wrote earlier may stand in place of SUBMISSION_DIR.
"""

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from bench.operators import cell, interval, label

HEADER = (
    "| operator | eager ms | compile ms | submission ms | over compile [95 %] | over eager | verdict |\n"
    "|---|---|---|---|---|---|---|"
)


def main() -> int:
    """Judge every pair in turn and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="+", metavar="OPERATOR.py=SUBMISSION_DIR")
    parser.add_argument("--target", default="auto", choices=["auto", "cpu", "cuda"])
    parser.add_argument("--source", default="", help="where the operators come from, with its commit")
    options = parser.parse_args()
    pairs = [pair.rpartition("=")[::2] for pair in options.pairs]
    found = [(Path(operator), judged(operator, Path(submission), options.target)) for operator, submission in pairs]
    print(HEADER)
    for operator, report in found:
        print(row(operator, report))
    facts = found[0][1].get("environment", {}) | found[0][1].get("rules", {})
    told = [f"{key} {value}" for key, value in sorted(facts.items())] + ([options.source] if options.source else [])
    print("\n" + "; ".join(told))
    return 0


def judged(operator: str, submission: Path, target: str) -> dict[str, Any]:
    """Return the judge's document on a submission, new or written before."""
    if submission.is_file():
        text = submission.read_text(encoding="utf-8")
    else:
        command = [sys.executable, "-m", "cuda_agent", "judge", operator, str(submission), "--target", target, "--json"]
        text = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout
    document: dict[str, Any] = json.loads(text)
    return document


def row(operator: Path, report: dict[str, Any]) -> str:
    """Make one line of the table."""
    latency, speedup = report.get("latency_ms", {}), report.get("speedup", {})
    cells = [label(operator), *(cell(latency.get(side)) for side in ("eager", "compile", "submission"))]
    cells += [interval(speedup.get("compile")), interval(speedup.get("eager")), report.get("status") or "not judged"]
    return "| " + " | ".join(cells) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
