"""The judge as a program with defences of which some are switched off: what no option of its own can do."""

import json
import sys
from pathlib import Path

HOME, DEFENCES, COMMAND, SESSION, WORKSPACE, REPORT, NONCE = range(1, 8)


def main(argv: list[str]) -> int:
    """Run one command; returns the exit code."""
    sys.path.insert(0, argv[HOME])
    from cuda_agent_judge import environment, output
    from cuda_agent_judge.commands import Request, execute
    from cuda_agent_judge.defences import Defences
    from cuda_agent_judge.session import load

    environment.settle()
    session = load(Path(argv[SESSION]))
    request = Request(argv[COMMAND], session, Path(argv[WORKSPACE]), nonce=argv[NONCE])  # type: ignore[arg-type]
    report = execute(request, defences=Defences(**json.loads(argv[DEFENCES])))
    output.write_report(Path(argv[REPORT]), report)
    return output.exit_code(report)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv))
