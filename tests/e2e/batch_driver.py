"""A batch in a process of its own, as `cuda-agent batch` shows it and heeds signals.

    python batch_driver.py FOLDER WORKERS real|stand-in

`real`: the runs are real ones with a cheap judge; `stand-in`: they only behave like runs.
"""

import os
import sys
from pathlib import Path

from tests.unit.agent.batch.field import PROGRAM, Field

from cuda_agent.batch.prepared import halt_by
from cuda_agent.cli.batch_rows import Board
from cuda_agent.cli.batch_view import watching_batch
from cuda_agent.runs.signals import Signals

PROGRAMS = {"real": (sys.executable, str(Path(__file__).with_name("batch_program.py"))), "stand-in": PROGRAM}


def main() -> int:
    field = Field(Path(sys.argv[1]))
    board = Board()
    with Signals() as signals, watching_batch(board, plain_lines=False, as_json=False, environ=os.environ) as view:
        outcome = field.carry_out(
            workers=int(sys.argv[2]), program=PROGRAMS[sys.argv[3]], halt=halt_by(signals), watcher=view
        )
    print(f"{outcome.ending.end}: {outcome.ending.message}")
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
