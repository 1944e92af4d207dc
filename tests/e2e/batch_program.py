"""`optimize` and `resume` as a batch starts them: a real run, with the cheap judge and model of `killed_run.py`."""

import json
import sys
from pathlib import Path

from tests.e2e.killed_run import go_on

from cuda_agent.run_dir import load_document


def main() -> int:
    if sys.argv[1] == "resume":
        run = Path(sys.argv[2])
        operator = Path(load_document(run)["operator"]["path"])
    else:
        operator = Path(sys.argv[2])
        run = Path(next(word.partition("=")[2] for word in sys.argv if word.startswith("--run-dir=")))
    code = go_on(run, operator)
    print(json.dumps(load_document(run)))
    return code


if __name__ == "__main__":
    sys.exit(main())
