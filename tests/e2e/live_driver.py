"""Shows made-up events as a run would: `python -m tests.e2e.live_driver FOLDER`; it ends when FOLDER/go is there.

Ctrl-C asks what it asks in a run.
"""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from cuda_agent.cli.live import watching
from cuda_agent.debugger.offer import ask
from cuda_agent.trajectory import CallStarted, Judged, MessageAdded, Notice, Observation, RunStarted, StageStarted

HOSTILE = "\x1b[2J\x1b[1;1H\x1b[?1049h\x1b]0;taken over\x07漢字\u202eright\u0301 🚀\t\x9b31m\x00end"
PLAN = [
    {"content": "Read the operator", "status": "completed"},
    {"content": f"Write it {HOSTILE}", "status": "in_progress"},
    {"content": "Tune " + "and tune " * 40, "status": "pending"},
]
USAGE = {"input_tokens": 61_500, "output_tokens": 1_200, "cached_tokens": 0, "cost_usd": None}


def main(folder: Path) -> None:
    with watching(plain_lines=False, as_json=False, environ=os.environ) as view:

        def offer(number: int, frame: FrameType | None) -> None:
            with view.quiet():
                ask(sys.stdin.fileno(), sys.stdout.fileno())

        signal.signal(signal.SIGINT, offer)
        view.on_event(RunStarted("diag_matmul", "sha", "openai/some-model", {"max_turns": 200}, {}))
        view.on_event(Notice(0, "a line that scrolls"))
        for turn, speedup in ((1, 1.0), (2, 2.0), (3, 8.0)):
            view.on_event(StageStarted(turn, "model"))
            view.on_event(MessageAdded(turn, "assistant", f"I try {HOSTILE}", usage=USAGE))
            view.on_event(CallStarted(turn, "t", "TodoWrite", {"todos": PLAN}))
            view.on_event(Observation(turn, "t", "TodoWrite", "Plan kept.", False, 0.0))
            view.on_output(b"old output\n")
            report = {"status": "win", "final": False, "submission_sha256": str(turn)}
            view.on_event(Judged(turn, report | {"speedup": {"compile": {"median": speedup}}}))
        command = f"cd x && python3 -m utils.profiling {HOSTILE}" + "# long " * 60
        view.on_event(CallStarted(3, "c", "Bash", {"command": command}))
        view.on_output(f"first\nstill running {HOSTILE}".encode() + b"\xff\xfe\n")
        while not (folder / "go").exists():
            time.sleep(0.05)
        view.on_event(Observation(3, "c", "Bash", "Torch Baseline: 1us", False, 1.0))
    print("the end")
    (folder / "ended").touch()
    while (folder / "go").exists():
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
