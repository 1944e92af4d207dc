"""Stands where bench/sandboxed/judged.py does: answers each order with a verdict, and notes which loads were at work.

    python judging.py NOTES [HANGS]

With HANGS the verdict beside a load ends only with whoever asked for it.
"""

import json
import os
import sys
import time
from pathlib import Path

LOOKED_FOR = b"loading.py"
REPORT = {
    "schema": 1,
    "command": "verdict",
    "status": "tie",
    "latency_ms": {side: {"median": 2.0, "q25": 2.0, "q75": 2.0, "calls": 9} for side in ("compile", "submission")},
    "speedup": {"compile": {"median": 1.0, "low": 0.99, "high": 1.01}},
}


def loads() -> list[int]:
    """Processes that load a device for the same program as this one judges for."""
    found = []
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try:
            parent = Path("/proc", entry, "stat").read_bytes().rpartition(b")")[2].split()[1]
            line = Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if int(parent) == os.getppid() and LOOKED_FOR in line:
            found.append(int(entry))
    return found


def main(notes: str, hangs: str = "") -> None:
    asker = os.getppid()
    for line in sys.stdin:
        found = loads()
        cores = sorted(os.sched_getaffinity(0))
        with open(notes, "a") as stream:
            stream.write(json.dumps({"loads": found, "cores": cores}) + "\n")
        while hangs and found and os.getppid() == asker:
            time.sleep(0.05)
        time.sleep(
            3 if found else 0.5
        )  # readings of the load come every 0.1 s, on a machine that is busy with other things
        Path(json.loads(line)["report"]).write_text(json.dumps(REPORT))
        print(json.dumps({"code": 0, "stdout": "", "stderr": ""}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
