"""A run that computes nothing: it waits as a model, a compiler and a timing would, and takes the machine's real locks.

    python -I -S bench/simulated_run.py PLAN.json JOURNAL LOCKS [--gpu=UUID]

PLAN.json holds `turns`, a list of {"model_s", "build_s", "device_s"}, and `build_places`; with `dies` it is killed when
it first has its GPU. Without a GPU named, it is the one that $CUDA_VISIBLE_DEVICES names. The journal gets a JSON line
for each thing that was held. Standard library only.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "sandbox_image"))

from cuda_agent_judge.lock_queue import LockQueue

WAIT_LIMIT_S = 3600.0


def main() -> int:
    """Live through the plan."""
    plan, journal, locks = json.loads(Path(sys.argv[1]).read_text()), Path(sys.argv[2]), Path(sys.argv[3])
    named = [word.partition("=")[2] for word in sys.argv[4:] if word.startswith("--gpu=")]
    gpu = named[0] if named else os.environ["CUDA_VISIBLE_DEVICES"]
    for turn in plan["turns"]:
        time.sleep(turn["model_s"])
        hold(LockQueue(locks, "build", plan["build_places"]), "build", turn["build_s"], journal)
        hold(LockQueue(locks, gpu), gpu, turn["device_s"], journal, dies=plan.get("dies", False))
    print(json.dumps({"status": "done"}))
    return 0


def hold(queue: LockQueue, name: str, seconds: float, journal: Path, *, dies: bool = False) -> None:
    """Wait for something, hold it, and write down when."""
    asked = time.monotonic()
    queue.acquire(WAIT_LIMIT_S)
    since = time.monotonic()
    note(journal, {"what": name, "asked": asked, "since": since, "pid": os.getpid()})
    time.sleep(seconds)
    if dies:
        os.kill(os.getpid(), signal.SIGKILL)
    until = time.monotonic()  # before the next one can have it
    queue.release()
    note(journal, {"what": name, "asked": asked, "since": since, "until": until, "pid": os.getpid()})


def note(journal: Path, line: dict[str, Any]) -> None:
    """Append a line in one write."""
    fd = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(fd, (json.dumps(line) + "\n").encode())
    os.close(fd)


if __name__ == "__main__":
    sys.exit(main())
