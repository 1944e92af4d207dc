"""A batch in a process of its own, for tests that kill it: `python batch_driver.py FOLDER WORKERS`."""

import sys
from pathlib import Path

from tests.unit.agent.batch.field import Field

PROGRAM = (sys.executable, str(Path(__file__).with_name("batch_program.py")))


def main() -> int:
    return Field(Path(sys.argv[1])).carry_out(workers=int(sys.argv[2]), program=PROGRAM).exit_code


if __name__ == "__main__":
    sys.exit(main())
