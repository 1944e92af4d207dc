"""Run the demo and write what it printed into README.md, between the two markers.

    python scripts/readme_run.py

The README shows a real run, the first one on a machine: nothing is typed in by hand, only the checkout's own path is
taken out. A test compares its structure with a fresh run.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
COMMAND = ["cuda-agent", "optimize", "examples/diag_matmul/model.py", "--run-dir", "runs/demo"]
BEGIN = "<!-- run: made by scripts/readme_run.py -->\n"
END = "<!-- end of run -->\n"


def main() -> int:
    """Run it; a run that misses its target is not written."""
    shutil.rmtree(ROOT / "runs" / "demo", ignore_errors=True)
    command = [sys.executable, "-m", "cuda_agent", *COMMAND[1:]]
    with tempfile.TemporaryDirectory() as cache:
        first = {**os.environ, "CUDA_AGENT_CACHE": cache}
        done = subprocess.run(
            command, cwd=ROOT, env=first, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
    if done.returncode != 0:
        print(
            f"the run ended with exit code {done.returncode}; README.md is unchanged:\n{done.stdout}", file=sys.stderr
        )
        return 1
    readme = ROOT / "README.md"
    before, rest = readme.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    printed = done.stdout.replace(f"{ROOT}/", "").rstrip()
    block = f"```\n$ {' '.join(COMMAND)}\n{printed}\n```\n"
    readme.write_text(before + BEGIN + block + END + after, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
