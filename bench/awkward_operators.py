"""Analyse and judge operators of awkward forms and print what came of each.

    python -m bench.awkward_operators [--python SANDBOX_PYTHON] [--target cpu] [FOLDER ...]

A folder holds a model.py and a model_new.py that computes the same with PyTorch; without one, all of
tests/operators_awkward are taken. Exit code 1 when one got neither a verdict nor one sentence with exit code 2.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.errors import OperatorError
from cuda_agent.operators import load
from cuda_agent.sandbox.python import find_python
from cuda_agent_judge.report import Report

ROOT = Path(__file__).resolve().parents[1]
HEADER = "| operator | analysis | verdict | baseline | exit | said |\n|---|---|---|---|---|---|"
VERDICTS = ("win", "tie", "slower", "inconclusive", "not_counted")


@dataclass(frozen=True)
class Judged:
    """What `cuda-agent judge` did."""

    code: int
    report: Report | None
    """None where it ended with a sentence instead."""
    sentence: str

    @property
    def as_promised(self) -> bool:
        """Whether there is a verdict on the submission, or one sentence and exit code 2."""
        if self.report is not None:
            return self.report.status in VERDICTS
        return self.code == 2 and bool(self.sentence) and "\n" not in self.sentence


def main() -> int:
    """Judge every folder and print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, metavar="FOLDER")
    parser.add_argument("--target", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--python", type=Path, help="the sandbox's Python")
    options = parser.parse_args()
    all_of_them = sorted(path.parent for path in (ROOT / "tests/operators_awkward").glob("*/model.py"))
    folders = options.folders or [Path(os.path.relpath(folder)) for folder in all_of_them]
    python = str(options.python or find_python(host=os.environ, beside=(ROOT,)).path)
    good = True
    print(HEADER)
    for folder in folders:
        analysis = analyze(folder / "model.py", python, options.target)
        judged = judge(folder, python, options.target)
        good = good and judged.as_promised
        print(row(folder.name, analysis, judged), flush=True)
    return 0 if good else 1


def analyze(operator: Path, python: str, target: str) -> str:
    """Say what `analyze` found, in a few words."""
    try:
        files = load(operator).files
    except OperatorError as error:
        return str(error)
    with tempfile.TemporaryDirectory(prefix="cuda-agent-bench-") as name:
        session = Path(name)
        for path, data in files.items():
            target_file = session / "operator" / path
            target_file.parent.mkdir(parents=True, exist_ok=True)
            target_file.write_bytes(data)
        (session / "session.json").write_text(json.dumps({"target": target}))
        command = [python, "-I", str(ROOT / "sandbox_image"), "analyze", "--session", name]
        command += ["--report", str(session / "report.json")]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 2):
            return f"failed (exit code {done.returncode}): {done.stderr[-300:]}"
        report = Report.from_json((session / "report.json").read_text())
    if report.analysis is None:
        return "refused"
    nodes = sum(not node["implied"] for node in report.analysis["nodes"])
    return f"{nodes} operation{'' if nodes == 1 else 's'}"


def judge(folder: Path, python: str, target: str) -> Judged:
    """Run `cuda-agent judge` on the folder's own submission."""
    command = [sys.executable, "-m", "cuda_agent", "judge", str(folder / "model.py"), str(folder), "--json"]
    command += ["--libraries", "any", "--target", target, "--python", python]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        document = json.loads(done.stdout)
        if "error" in document:
            return Judged(done.returncode, None, document["error"]["message"])
        return Judged(done.returncode, Report.from_json(done.stdout), "")
    except ValueError:
        return Judged(done.returncode, None, f"no answer: {done.stderr[-300:]}")


def row(name: str, analysis: str, judged: Judged) -> str:
    """One line of the table."""
    report = judged.report
    if report is None:
        cells = [name, analysis, "", "", str(judged.code), judged.sentence]
    else:
        said = "; ".join([*([report.reason] if report.status not in VERDICTS[:3] else []), *report.notes])
        baseline = report.headline if report.speedup else ""
        cells = [name, analysis, report.status, baseline, str(judged.code), said]
    return "| " + " | ".join(" ".join(cell.replace("|", "\\|").split()) for cell in cells) + " |"


if __name__ == "__main__":
    raise SystemExit(main())
