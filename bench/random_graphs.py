"""Draw operators of the families that `builtin` knows, run `cuda-agent optimize` on each and print what came of it.

    python -m bench.random_graphs [--families rows] [--seeds 0-19] [--elements 700000] [--max-turns 14] [--python PATH]

Run it from the root of a checkout. wrong: some check in the run found wrong results; right: the kernel that was kept
passed its verdict; win: a final verdict says at least 5 % faster than the baseline. Exit code 1 when one was wrong.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.drawn_operators import Drawn, draw
from bench.drawn_products import draw_products
from bench.drawn_rows import draw_rows

HEADER = "| seed | operations | shape | dtype | verdict | over compile [95 %] | wrong |\n|---|---|---|---|---|---|---|"
DRAW = {"chains": draw, "rows": draw_rows, "gemm": draw_products}
RIGHT = ("win", "tie", "slower", "inconclusive")


@dataclass(frozen=True)
class Ended:
    """How one run ended."""

    document: dict[str, Any]
    """The run's run.json, or what the program printed in its place."""
    wrong: list[str]
    """Reasons of every check that found a wrong result."""

    @property
    def status(self) -> str:
        """The verdict on what was kept, else why there is none."""
        result = self.document.get("result")
        if result:
            return str(result["status"])
        return str((self.document.get("stop") or {}).get("reason") or self.document.get("error"))


def main() -> int:
    """Run every seed in turn; print a line a run and the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0-19", help="first-last")
    parser.add_argument("--families", default="chains", choices=list(DRAW), help="rows: reductions; gemm: products")
    parser.add_argument("--elements", type=int, default=700_000, help="of the first input, about")
    parser.add_argument("--max-turns", type=int, default=14)
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--python", help="the sandbox's Python")
    options = parser.parse_args()
    first, _, last = options.seeds.partition("-")
    ended = []
    print(HEADER)
    with tempfile.TemporaryDirectory(prefix="cuda-agent-bench-") as folder:
        for seed in range(int(first), int(last or first) + 1):
            drawn = DRAW[options.families](seed, elements=options.elements)
            ended.append(run(drawn, Path(folder), options))
            print(row(drawn, ended[-1]), flush=True)
    wrong = sum(bool(one.wrong) for one in ended)
    right = sum(one.status in RIGHT and not one.wrong for one in ended)
    wins = sum(one.status == "win" for one in ended)
    print(f"\n{len(ended)} operators: {wrong} wrong, {right} right, {wins} wins", flush=True)
    for seed, one in enumerate(ended, start=int(first)):
        for reason in one.wrong:
            print(f"- wrong on seed {seed}: {reason}")
    return 1 if wrong else 0


def run(drawn: Drawn, folder: Path, options: argparse.Namespace) -> Ended:
    """Write the operator and optimise it."""
    operator, place = folder / f"drawn{drawn.seed}.py", folder / f"run{drawn.seed}"
    operator.write_text(drawn.source)
    command = [sys.executable, "-m", "cuda_agent", "optimize", str(operator), "--json", "--run-dir", str(place)]
    command += ["--target", options.target, "--max-turns", str(options.max_turns)]
    if options.python:
        command += ["--python", options.python]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document: dict[str, Any] = json.loads(done.stdout)
    except ValueError:
        document = {"error": f"no result (exit code {done.returncode}): {done.stderr[-300:]}"}
    return Ended(document, wrong_results(place / "trajectory.jsonl"))


def wrong_results(trajectory: Path) -> list[str]:
    """Reasons of every verdict, and of every command of the judge, that found a wrong result."""
    if not trajectory.is_file():
        return []
    found = []
    for line in trajectory.read_text(encoding="utf-8").splitlines():
        event = json.loads(line)
        report = event.get("report") or said_by_command(event.get("text") or "")
        if report.get("status") in ("incorrect", "runtime_error", "tampering"):
            found.append(f"{report['status']}: {report.get('reason')}")
    return found


def said_by_command(text: str) -> dict[str, Any]:
    """The report that a command printed as a line of JSON, {} without one."""
    for line in reversed(text.splitlines()):
        if line.startswith('{"') and '"schema"' in line:
            try:
                report: dict[str, Any] = json.loads(line)
            except ValueError:
                continue
            return report
    return {}


def row(drawn: Drawn, ended: Ended) -> str:
    """One line of the table."""
    result = ended.document.get("result") or {}
    interval = (result.get("speedup") or {}).get(result.get("headline"))
    speedup = f"{interval['median']:.2f} [{interval['low']:.2f}, {interval['high']:.2f}]" if interval else ""
    steps = "; ".join(f"`{step}`" for step in drawn.steps)
    shape = "x".join(map(str, drawn.shape))
    wrong = "yes" if ended.wrong else "no"
    return f"| {drawn.seed} | {steps} | {shape} | {drawn.dtype} | {ended.status} | {speedup} | {wrong} |"


if __name__ == "__main__":
    raise SystemExit(main())
