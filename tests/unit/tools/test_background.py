import re
import time
from collections.abc import Callable
from pathlib import Path

from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.background import begun_in, ended_in
from cuda_agent_tools.bash import Bash

Run = Callable[..., str]


def start(bash: Run, command: str) -> tuple[str, str]:
    """Start a job and return its process id and its log."""
    said = bash(command, run_in_background=True)
    found = re.search(r"output goes to (\S+)\. .*`kill (\d+)`", said)
    assert found, said
    assert [log for _, log in begun_in(said)] == [found[1]]
    return found[2], found[1]


def wait_for(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit, "it never came"
        time.sleep(0.05)


def told_of_end(bash: Run, command: str = "true") -> str:
    """What this call and those after it say, until one says that a job has ended."""
    said = [bash(command)]

    def ended() -> bool:
        if "background job" not in said[-1]:
            said.append(bash("true"))
        return "background job" in said[-1]

    wait_for(ended)
    return said[-1]


def test_a_job_goes_on_after_its_call_and_its_output_is_in_a_log(bash: Run) -> None:
    _, log = start(bash, "echo one; while [ ! -e go ]; do sleep 0.02; done; echo two; echo three >&2; exit 4")
    assert "[job" not in bash("echo meanwhile")
    wait_for(lambda: bash(f"cat {log}") == "one")
    said = told_of_end(bash, "touch go")
    assert said == f"(no output)\n[background job 1 ended with exit code 4; its output is in {log}]"
    assert ended_in(said) == [log]
    assert bash(f"cat {log}") == "one\ntwo\nthree"
    assert bash("true") == "(no output)"  # said once


def test_jobs_are_listed_and_killed_through_bash(bash: Run) -> None:
    first, log = start(bash, "echo a; sleep 300 & echo $! >child; sleep 301")
    second, _ = start(bash, "sleep 302\nsleep 303")
    listed = bash("jobs")
    assert [line.split()[:4] for line in listed.splitlines()] == [
        ["job", "1", "pid", first],
        ["job", "2", "pid", second],
    ]
    assert f"log {log}  echo a; sleep 300 & echo $! >child; sleep 301" in listed
    assert "sleep 302; sleep 303" in listed
    assert "[background job 1 ended with exit code 143" in told_of_end(bash, f"kill {first}")
    assert bash("jobs").splitlines() == [listed.splitlines()[1]]
    assert "No such process" in bash("kill -0 $(cat child)")


def test_a_job_sees_the_session_and_leaves_it_alone(bash: Run, workspace: Path) -> None:
    bash("mkdir sub; cd sub; x='a b'; f() { echo \"f $1\"; }")
    _, log = start(bash, 'pwd; f "$x"; cd /; x=other; set -u')
    told_of_end(bash)
    assert bash(f"cat {log}").splitlines() == [str(workspace / "sub"), "f a b"]
    assert bash('pwd; echo "$x$unset"').splitlines() == [str(workspace / "sub"), "a b"]


def test_a_flood_ends_at_the_logs_limit(bash: Run) -> None:
    _, log = start(bash, "yes")
    assert "ended with exit code 141" in told_of_end(bash)
    assert bash(f"stat -c %s {log}") == "100000000"


def test_what_ends_at_once_is_said_at_once_or_with_the_next_call(bash: Run) -> None:
    said = bash("echo x; nonsense", run_in_background=True)
    assert "exit code 127" in said or "exit code 127" in told_of_end(bash)


def test_all_are_stopped_together_and_not_spoken_of_again(sandbox: LocalSandbox) -> None:
    tool = Bash(sandbox)
    for command in ("sleep 300 & echo $! >child; wait", "sleep 301", "true"):
        tool.run({"command": command, "run_in_background": True})
    wait_for(lambda: (Path(sandbox.workspace) / "child").exists())
    tool.jobs.stop()
    assert tool.run({"command": "jobs"}).text == "(no output)"
    assert "No such process" in tool.run({"command": "kill -0 $(cat child)"}).text


def test_nothing_survives_the_sandbox(sandbox: LocalSandbox, tmp_path: Path) -> None:
    beat = tmp_path / "beat"
    tool = Bash(sandbox)
    command = f"setsid bash -c 'while :; do date +%N >{beat}; sleep 0.02; done' & sleep 300"
    tool.run({"command": command, "run_in_background": True})
    wait_for(beat.exists)
    sandbox.stop()
    wait_for(lambda: _still(beat))


def _still(file: Path) -> bool:
    before = file.read_text()
    time.sleep(0.3)
    return file.read_text() == before
