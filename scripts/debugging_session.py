"""Run the session of docs/debugging.md again and write its output there. Takes some minutes; use a quiet machine."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/debugging.md"
BEGIN, END = "<!-- session: made by scripts/debugging_session.py -->\n", "<!-- end of session -->"
OPERATOR = "examples/diag_matmul/model.py"
SCRIPT = "examples/debugging/slow_rows.json"
LOOPS = (
    "  for (int64_t row = 0; row < rows; ++row)",
    "    for (int64_t column = 0; column < columns; ++column)",
)
COMMANDS = f"""break utils.profiling
continue
next
show
sh grep -n "for (" kernels/scale_rows.cpp
set polish 2
step
skip it is not the unrolling: the inner loop walks down a column
sh sed -i -e '4s/.*/{LOOPS[0]}/' -e '5s/.*/{LOOPS[1]}/' kernels/scale_rows.cpp
say I exchanged the loops in kernels/scale_rows.cpp: neighbours in memory belong into the inner loop.
delete 1
next
diff 2 4
print ledger
continue
"""


def main() -> None:
    """Run the session in a fresh folder and replace what stands between the marks."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        argv = [sys.executable, "-m", "cuda_agent", "debug", OPERATOR, "--model", f"scripted:{SCRIPT}"]
        done = subprocess.run(
            [*argv, "--run-dir", str(run)], cwd=ROOT, input=COMMANDS, capture_output=True, text=True, env=os.environ
        )
        if done.returncode != 0:
            sys.exit(f"The session ended with exit code {done.returncode}:\n{done.stdout}\n{done.stderr}")
        shown = done.stdout.replace(str(run), "runs/slow_rows")
    page = PAGE.read_text(encoding="utf-8")
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}```\n{shown.strip()}\n```\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
