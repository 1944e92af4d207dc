"""Keys in the program's environment, and commands of the same user that look for them where nothing confines them."""

import json
import os
import secrets
import shlex
import subprocess
from pathlib import Path

import pytest
from tests.e2e.program import GOOD, command, environment

from cuda_agent.history import read
from cuda_agent.trajectory import Observation

PLANTED, CONTROL, NAMED = (f"sk-{name}-{secrets.token_hex(8)}" for name in ("planted", "control", "named"))
"""Nothing else on this machine has them."""
LOOK = """
for process in /proc/[0-9]*; do
  for file in environ cmdline; do
    { tr '\\0' '\\n' < $process/$file; } 2>/dev/null | grep -oFf {keys} | sed "s/$/ in $file/"
  done
done | sort | uniq -c
pid=$PPID; line=
while [ "$pid" -gt 1 ]; do
  line="$line $(tr '\\0' ' ' < /proc/$pid/cmdline | grep -c cuda_agent)"
  pid=$(sed 's/.*) //' /proc/$pid/stat | cut -d ' ' -f 2)
done
echo "ancestors:$line"
"""


def ordinary(line: list[str]) -> list[str]:
    """The command with an ordinary user's rights over processes: over those of the same user, as the kernel allows."""
    if os.geteuid() != 0:
        return line
    rights = "-sys_ptrace,-perfmon,-sys_admin"
    return ["setpriv", f"--bounding-set={rights}", f"--inh-caps={rights}", *line]


@pytest.fixture
def ground(tmp_path: Path) -> Path:
    """An operator, and a bwrap that does not work."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/bwrap").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin/bwrap").chmod(0o755)
    (tmp_path / "op.py").write_text(GOOD)
    (tmp_path / "keys").write_text(f"{PLANTED}\n{CONTROL}\n{NAMED}\n")
    look = LOOK.replace("{keys}", shlex.quote(str(tmp_path / "keys")))
    script = [{"calls": [{"name": "Bash", "arguments": {"command": look}}]}, {"gave_up": "seen enough"}]
    (tmp_path / "script.json").write_text(json.dumps(script))
    return tmp_path


def test_a_command_of_the_same_user_finds_no_key_in_the_processes_above_it(ground: Path, sandbox_python: str) -> None:
    more = {"HOME": str(ground), "PATH": f"{ground / 'bin'}:{os.environ['PATH']}"}
    keys = {"OPENAI_API_KEY": PLANTED, "MY_VARIABLE": NAMED}
    control = subprocess.Popen(ordinary(["sleep", "600"]), env={**more, "CONTROL_KEY": CONTROL})
    try:
        arguments = ["optimize", "op.py", "--model", "scripted:script.json", "--run-dir", "run", "--python"]
        done = subprocess.run(
            ordinary([*command(*arguments, sandbox_python, "--target", "cpu", "--sandbox", "local")]),
            cwd=ground,
            env=environment(**more, **keys),
            capture_output=True,
            text=True,
            timeout=300,
        )
    finally:
        control.kill()
        control.wait()
    assert "unconfined: bwrap does not work here" in done.stdout
    [answer] = [one.text for one in read(ground / "run/trajectory.jsonl") if isinstance(one, Observation)]
    assert answer.splitlines()[0].split() == ["1", CONTROL, "in", "environ"]  # so one would have been found
    assert answer.splitlines()[1].startswith("ancestors: ")
    assert "1" in answer.splitlines()[1].split()  # the program is one of them
    assert len(answer.splitlines()) == 2
