"""What is printed when a run has ended."""

import json

from cuda_agent.runs import summary
from cuda_agent.runs.single import Outcome
from cuda_agent.terminal import plain


def show_outcome(outcome: Outcome, *, as_json: bool) -> int:
    """Print how a run ended and return the exit code."""
    if as_json:
        print(json.dumps({**outcome.document, "run": str(outcome.folder)}, ensure_ascii=False, default=str))
    else:
        print(plain(f"\n{summary.run_text(outcome.document, outcome.folder)}"))
    return outcome.exit_code
