"""What a snapshot of every turn costs: time a turn beside the turn without it, and disk for all of them.

    python -m bench.snapshots [--turns 200] [--python PATH]

Each turn edits a kernel by a real tool call in a real local sandbox, in a workspace as a run has it. The limits are
50 ms a turn and 1 MB for 200 turns of small edits. Without snapshots a turn still has to read the submission through
the sandbox; that is measured too.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from cuda_agent.llm.model import ToolCall
from cuda_agent.loop.calls import Calls
from cuda_agent.resources import tree, workspace_template
from cuda_agent.run_dir import RunDir
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent.snapshots import Snapshots
from cuda_agent.trajectory import Silent, Trajectory
from cuda_agent.workspace import Workspace
from cuda_agent_tools.multi_edit import MultiEdit

LINES = 120
LIMIT_MS = 50.0
LIMIT_BYTES = 1_000_000
SUBMISSION = (
    "import os, sys\nfor name in ('model_new.py', 'kernels/k.cpp', 'kernels/k_binding.cpp'):\n"
    "    sys.stdout.buffer.write(open(name, 'rb').read())"
)


def main() -> int:
    """Take the turns and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--python", type=Path, default=Path(sys.executable), help="of the sandbox")
    options = parser.parse_args()
    edits, bare, read, kept = [], [], [], []
    with _run(options.python) as (run, sandbox, edit):
        workspace = Workspace(sandbox, Snapshots(run.snapshots), python=sandbox.python)
        workspace.capture(0)
        for turn in range(1, options.turns + 1):
            edits.append(_ms(partial(edit, turn)))
            bare.append(_ms(lambda: sandbox.exec([sandbox.python, "-I", "-S", "-c", ""])))
            read.append(_ms(lambda: sandbox.exec([sandbox.python, "-I", "-S", "-c", SUBMISSION])))
            kept.append(_ms(partial(workspace.capture, turn)))
        sizes = [path.lstat() for path in run.snapshots.rglob("*")]
    apparent, used = sum(one.st_size for one in sizes), sum(one.st_blocks * 512 for one in sizes)
    print("| part of a turn | median ms | 90 % ms |\n|---|---|---|")
    for name, times in (
        ("one MultiEdit call", edits),
        ("an empty command", bare),
        ("reading the submission alone", read),
        ("snapshot, the submission in it", kept),
    ):
        print(f"| {name} | {statistics.median(times):.1f} | {_quantile(times, 0.9):.1f} |")
    print(f"\n{options.turns} turns: {apparent:,} bytes, {used:,} on disk")
    extra = statistics.median(kept) - statistics.median(read)
    print(f"a snapshot costs {extra:.1f} ms a turn more than reading the submission")
    return int(statistics.median(kept) > LIMIT_MS or used > LIMIT_BYTES * options.turns / 200)


@contextmanager
def _run(python: Path) -> Iterator[tuple[RunDir, LocalSandbox, Callable[[int], object]]]:
    draw = random.Random(1)
    source = [f"  y[{n}] = x[{n}] * {draw.random():.6f}f;  // line {n}" for n in range(LINES)]
    with tempfile.TemporaryDirectory() as folder:
        run = RunDir.create(Path(folder) / "run", "op")
        with LocalSandbox(workspace=run.workspace, state_dir=Path(folder) / "state", python=python) as sandbox:
            for name, data in {**tree(workspace_template()), **_submission(source)}.items():
                path = run.workspace / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(data)
            with run.open_trajectory() as log:
                calls = Calls([MultiEdit(sandbox)], Trajectory(log, Silent()))

                def edit(turn: int) -> object:
                    number = draw.randrange(LINES)
                    old, source[number] = source[number], f"  y[{turn}] = x[{number}] * {draw.random():.6f}f;"
                    change = {"old_string": old, "new_string": source[number]}
                    return calls.answer(
                        turn, ToolCall("e", "MultiEdit", {"file_path": "kernels/k.cpp", "edits": [change]})
                    )

                yield run, sandbox, edit


def _submission(source: Sequence[str]) -> dict[str, bytes]:
    return {
        "model_new.py": b"import torch\nimport cuda_extension\n" * 10,
        "kernels/k.cpp": "\n".join(source).encode(),
        "kernels/k_binding.cpp": b'#include "binding_registry.h"\n' * 20,
    }


def _ms(work: Callable[[], object]) -> float:
    start = time.perf_counter()
    work()
    return 1000 * (time.perf_counter() - start)


def _quantile(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(share * (len(times) - 1))]


if __name__ == "__main__":
    sys.exit(main())
