"""What the policy reads in the answers to its commands, and what a person reads there."""

import json
import subprocess
from pathlib import Path

from cuda_agent.llm.builtin.history import COMMANDS, Purpose, command_for, find_report

REPORT = {"schema": 1, "status": "win", "reason": "it runs at 2x {really}", "padding": "x" * 90_000}


def packed(folder: Path, answer: str) -> str:
    (folder / "answer").write_text(answer)
    command = command_for(Purpose.VERIFY, 1).replace(COMMANDS[Purpose.VERIFY], "cat answer")
    done = subprocess.run(["bash", "-c", command], cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


def test_a_packed_answer_is_short_whole_and_ends_with_words_for_a_person(tmp_path: Path) -> None:
    text = packed(tmp_path, f"[PASS] output 0\n{json.dumps(REPORT)}\n")
    assert len(text) < 1000
    assert find_report(text) == REPORT
    assert text.splitlines()[-1] == "win: it runs at 2x {really}"


def test_a_command_that_gave_no_report_is_packed_without_complaint(tmp_path: Path) -> None:
    assert find_report(packed(tmp_path, "Killed\n")) is None
    assert find_report(packed(tmp_path, "")) is None
