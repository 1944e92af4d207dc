"""Kill a real batch of twelve operators with -9 at random moments, start it again, and compare.

    python -m bench.batch_kill [--kills 6] [--longest 120] [--workers 2] [--seed 1] [--folder DIR]

The operators have twelve different graphs; model builtin, target cpu. After the kills the same command runs to its end.
Every operator must have one run with one beginning, a run that had ended must not be touched again, no event may be
lost, no call answered twice, and nothing left running.
"""

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

HEAD = "import torch\n\n\nclass Model(torch.nn.Module):\n    def forward(self, {names}):\n        return {body}\n\n\n"
TAIL = "def get_inputs():\n    return [{inputs}]\n"
GRAPHS = {
    "1_scaled_relu": ("a", "torch.relu(a) * 3", "torch.randn(256, 256)"),
    "2_gated": ("a, b", "a * torch.sigmoid(b)", "torch.randn(256, 256), torch.randn(256, 256)"),
    "3_row_sum": ("a", "a.sum(dim=1)", "torch.randn(512, 512)"),
    "4_softmax": ("a", "torch.softmax(a, dim=-1)", "torch.randn(256, 512)"),
    "5_diagonal": ("a, b", "torch.diag(a) @ b", "torch.randn(512), torch.randn(512, 512)"),
    "6_layer_norm": ("a", "torch.nn.functional.layer_norm(a, (512,))", "torch.randn(256, 512)"),
    "7_transposed_sum": ("a, b", "a.t() + b", "torch.randn(256, 512), torch.randn(512, 256)"),
    "8_mean_square_error": (
        "a, b",
        "torch.nn.functional.mse_loss(a, b)",
        "torch.randn(256, 512), torch.randn(256, 512)",
    ),
    "9_clamped_root": ("a", "torch.sqrt(torch.clamp(a, min=0.0) + 1)", "torch.randn(512, 256)"),
    "10_largest": ("a", "a.amax(dim=-1)", "torch.randn(512, 512)"),
    "11_broadcast": ("a, b", "(a + b).tanh()", "torch.randn(512, 256), torch.randn(256)"),
    "12_centred": ("a", "a - a.mean(dim=-1, keepdim=True)", "torch.randn(256, 512)"),
}


def main() -> int:
    """Kill, start again, and print; the exit code is 1 where something was lost or done twice."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=6)
    parser.add_argument("--longest", type=float, default=120.0, help="seconds from a start to its kill, at most")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="where to work; new")
    options = parser.parse_args()
    folder = options.folder or Path(tempfile.mkdtemp(prefix="cuda-agent-bench-"))
    operators, batch = folder / "operators", folder / "batch"
    operators.mkdir(parents=True)
    for name, (names, body, inputs) in GRAPHS.items():
        (operators / f"{name}.py").write_text(HEAD.format(names=names, body=body) + TAIL.format(inputs=inputs))
    command = [sys.executable, "-m", "cuda_agent", "batch", str(operators), "--batch-dir", str(batch), "--plain"]
    command += ["--target", "cpu", "--sandbox", "local", "--workers", str(options.workers)]
    faults = killed(command, batch, options.kills, options.longest, random.Random(options.seed))
    start = time.monotonic()
    code = subprocess.run(command, check=False).returncode
    print(f"the last start ended with {code} after {time.monotonic() - start:.0f} s")
    faults += at_the_end(batch)
    print(f"{options.kills} kills; faults: {faults or 'none'}; results in {batch / 'results.md'}")
    return int(bool(faults))


def killed(command: list[str], batch: Path, kills: int, longest: float, draw: random.Random) -> list[str]:
    """Kill the batch so often; return what a later start did to what had been written."""
    faults: list[str] = []
    before: dict[str, tuple[bool, bytes]] = {}
    for number in range(kills):
        program = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            program.wait(draw.uniform(1.0, longest))
            print(f"  {number + 1}: the batch had ended before", flush=True)
        except subprocess.TimeoutExpired:
            program.kill()
            program.wait()
        now = written(batch)
        faults += changed(before, now)
        before = now
        print(
            f"  {number + 1}: killed; {sum(done for done, _ in now.values())} of {len(now)} runs had ended", flush=True
        )
    return faults


def written(batch: Path) -> dict[str, tuple[bool, bytes]]:
    """Return each run's whole lines, and whether it had ended."""
    found = {}
    for log in sorted(batch.glob("runs/*/trajectory.jsonl")):
        data = log.read_bytes()
        try:
            done = json.loads((log.parent / "run.json").read_bytes())["status"] == "done"
        except (OSError, ValueError):
            done = False
        found[log.parent.name] = (done, data[: data.rfind(b"\n") + 1])
    return found


def changed(before: dict[str, tuple[bool, bytes]], now: dict[str, tuple[bool, bytes]]) -> list[str]:
    """Say what is not as it was: a run that had ended must be the same, another may have grown."""
    faults = []
    for name, (done, lines) in before.items():
        later = now.get(name, (False, b""))[1]
        if lines.count(b"\n") > 1 and not later.startswith(lines):
            faults.append(f"{name}: an event was lost")
        if done and later != lines:
            faults.append(f"{name}: it had ended and was touched again")
    return faults


def at_the_end(batch: Path) -> list[str]:
    """Say what is wrong with the batch as it ended."""
    faults = []
    runs = written(batch)
    if set(runs) != set(GRAPHS):
        faults.append(f"the set differs: {sorted(set(runs) ^ set(GRAPHS))}")
    for name, (done, data) in runs.items():
        events: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        beginnings = sum(event["type"] == "run_started" for event in events)
        answered = Counter((event["turn"], event["id"]) for event in events if event["type"] == "observation")
        if not done or beginnings != 1:
            faults.append(f"{name}: ended {done}, begun {beginnings} times")
        faults += [f"{name}: call {call} was answered {count} times" for call, count in answered.items() if count > 1]
    left = subprocess.run(["pgrep", "-f", str(batch)], capture_output=True, text=True, check=False).stdout.split()
    return faults + [f"process {one} is still there" for one in left]


if __name__ == "__main__":
    raise SystemExit(main())
