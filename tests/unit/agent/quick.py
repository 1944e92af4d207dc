"""What a real run needs to be quick: a judge that goes by the text of model_new.py, and a sandbox without torch."""

import sys
import time
from collections.abc import Callable

from cuda_agent.installing import Rules
from cuda_agent.judging import Judge, Submission
from cuda_agent.operators import Operator
from cuda_agent.runs.place import Place
from cuda_agent_judge.report import Interval, Report, Status

OPERATOR = "import torch\nclass Model(torch.nn.Module):\n    pass\ndef get_inputs():\n    return []\n"
PLACE = Place("local", sys.executable, "cpu", True, ())
SPEEDS = {"version 3": 1.02, "version 5": 1.04, "version 8": 2.0}


class QuickJudge(Judge):
    """Judges by the text of model_new.py, and takes long enough to be killed in the middle."""

    def install(self, operator: Operator, rules: Rules) -> None:
        """Need nothing."""

    def analyze(self, *, timeout_s: float = 0.0, on_output: Callable[[bytes], None] | None = None) -> Report:
        return Report(command="analyze", status="measured")

    def verdict(self, *, timeout_s: float = 0.0, on_output: Callable[[bytes], None] | None = None) -> Report:
        return self._report(self._sandbox.read("model_new.py"), final=False)

    def final_verdict(
        self, submission: Submission, *, timeout_s: float = 0.0, on_output: Callable[[bytes], None] | None = None
    ) -> Report:
        return self._report(submission.files["model_new.py"], final=True)

    def new_profiles(self) -> list[Report]:
        return []

    def _report(self, text: bytes, *, final: bool) -> Report:
        time.sleep(0.02)
        speed = SPEEDS.get(text.decode(), 0.5)
        status: Status = "win" if speed > 1.1 else "tie" if speed > 1 else "slower"
        speedup = {"compile": Interval(speed, speed * 0.99, speed * 1.01)}
        return Report(command="verdict", status=status, speedup=speedup, final=final, submission_sha256=text.decode())
