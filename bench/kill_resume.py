"""Kill real runs of `builtin` with -9 at random moments, resume them, and compare how they end.

    python -m bench.kill_resume [--moments 30] [--each 5] [--operator examples/diag_matmul/model.py] [--seed 1]

Each run is killed `--each` times, each time within `--longest` seconds after it was started or resumed, and then left
to its end. A line a kill says where the run was. Nothing that was written may be lost, no call may be answered twice,
and every run must end with the same verdict.
"""

import argparse
import json
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def main() -> int:
    """Kill, resume and print; the exit code is 1 where a run ended otherwise or something was lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=30)
    parser.add_argument("--each", type=int, default=5)
    parser.add_argument("--longest", type=float, default=60.0, help="seconds from a start to its kill, at most")
    parser.add_argument("--operator", type=Path, default=ROOT / "examples/diag_matmul/model.py")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    draw = random.Random(options.seed)
    left, faults, verdicts = options.moments, [], Counter[str]()
    while left > 0:
        with tempfile.TemporaryDirectory() as folder:
            run = Path(folder) / "run"
            kills = min(left, options.each)
            faults += _killed(run, options.operator, kills, options.longest, draw)
            left -= kills
            verdicts[_verdict(run)] += 1
    print(f"{options.moments} kills; runs by how they ended: {dict(verdicts)}; faults: {faults or 'none'}")
    return int(bool(faults) or len(verdicts) != 1)


def _killed(run: Path, operator: Path, kills: int, longest: float, draw: random.Random) -> list[str]:
    log = run / "trajectory.jsonl"
    written: list[bytes] = []
    for number in range(kills):
        program = _started(run, operator)
        wait = draw.uniform(1.0, longest)
        try:
            program.wait(wait)
            print(f"  {number + 1}: the run had ended before", flush=True)
            break
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        if not (run / "run.json").exists():
            shutil.rmtree(run, ignore_errors=True)  # killed before it was a run
        before = log.read_bytes() if log.exists() else b""
        print(f"  {number + 1}: killed {wait:.0f} s after its start, in {_where(before)}", flush=True)
        written.append(before[: before.rfind(b"\n") + 1])
    start = time.monotonic()
    code = _started(run, operator).wait()
    print(f"  ended with {code} after {time.monotonic() - start:.0f} s more: {_verdict(run)}", flush=True)
    whole = log.read_bytes()
    faults = ["an event was lost" for before in written if not whole.startswith(before)]
    answered = Counter(event["id"] for event in _events(whole) if event["type"] == "observation")
    faults += [f"call {name} was answered {count} times" for name, count in answered.items() if count > 1]
    return faults


def _started(run: Path, operator: Path) -> subprocess.Popen[bytes]:
    anew = not (run / "run.json").exists()
    given = ["optimize", str(operator), "--run-dir", str(run)] if anew else ["resume", str(run)]
    return subprocess.Popen(
        [sys.executable, "-m", "cuda_agent", *given], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _events(data: bytes) -> list[dict[str, Any]]:
    return [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]


def _where(data: bytes) -> str:
    events = _events(data)
    if not events:
        return "the start"
    last = events[-1]
    return f"turn {last.get('turn', 0)} after {last['type']} {last.get('name', '')}".rstrip()


def _verdict(run: Path) -> str:
    document = json.loads((run / "run.json").read_text(encoding="utf-8"))
    result = document["result"] or {}
    return f"{(document['stop'] or {}).get('reason')}, {'final ' if result.get('final') else ''}{result.get('status')}"


if __name__ == "__main__":
    sys.exit(main())
