import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_agent.files import FileInUse, LineFile

HOLDER = """
import os, signal, sys
sys.path[:0] = sys.argv[2:]
from cuda_agent.files import LineFile
from pathlib import Path
held = LineFile(Path(sys.argv[1]), alone=True)
if os.fork() == 0:  # as a process that is being started, before it becomes its program
    print("ready", flush=True)
    sys.stdin.readline()
    os._exit(0)
signal.pause()
"""


def test_a_file_that_another_process_writes_is_refused(tmp_path: Path) -> None:
    with LineFile(tmp_path / "file", alone=True), pytest.raises(FileInUse):
        LineFile(tmp_path / "file", alone=True)


def test_a_child_that_a_killed_process_was_making_does_not_keep_the_next_one_out(tmp_path: Path) -> None:
    source = str(Path(__file__).resolve().parents[3] / "agent")
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "file"), source]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"ready\n"
        holder.kill()
        child = os.fork()
        if child == 0:  # meanwhile the other one becomes its program
            os.write(holder.stdin.fileno(), b"\n")
            os._exit(0)
        with LineFile(tmp_path / "file", alone=True) as taken:
            taken.append(b"{}")
        os.waitpid(child, 0)
    assert (tmp_path / "file").read_bytes() == b"{}\n"
