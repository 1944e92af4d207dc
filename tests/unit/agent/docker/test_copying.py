"""What a container sends as its workspace, written to a folder of the host."""

import base64
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_agent.sandbox.docker.copying import SEND_SCRIPT, into, receive
from cuda_agent_tools.sandbox import SandboxError


def entry(name: str, data: bytes = b"", *, kind: str = "F", mode: int = 0o644, mtime_ns: int = 5 * 10**17) -> bytes:
    encoded = base64.b64encode(os.fsencode(name)).decode()
    return f"{kind} {mode:o} {mtime_ns} {len(data)} {encoded}\n".encode() + data


def test_files_folders_modes_and_times_arrive(tmp_path: Path) -> None:
    sent = entry(".", kind="D") + entry("./kernels", kind="D") + entry("./kernels/a ü\udcff.cu", b"\0\n1", mode=0o755)
    receive(io.BytesIO(sent), tmp_path)
    file = tmp_path / "kernels" / "a ü\udcff.cu"
    assert file.read_bytes() == b"\0\n1"
    assert (file.stat().st_mode & 0o777, file.stat().st_mtime_ns) == (0o755, 5 * 10**17)


def test_rights_that_reach_beyond_files_do_not_arrive(tmp_path: Path) -> None:
    receive(io.BytesIO(entry("a", b"x", mode=0o6777) + entry("b", b"y", mode=0)), tmp_path)
    assert [(tmp_path / name).stat().st_mode & 0o7777 for name in "ab"] == [0o777, 0o600]


@pytest.mark.parametrize(
    "sent",
    [
        entry("/etc/evil", b"x"),
        entry("../evil", b"x"),
        entry("a/../../evil", b"x"),
        entry("..", kind="D"),
        entry("a\0b", b"x"),
        b"F 644 1 nonsense YQ==\n",
        b"F 644 1 1 not-base64!\n",
        b"no list at all\n",
        b"x" * 200_000,
        entry("short", b"12345")[:-2],
    ],
)
def test_what_no_honest_workspace_sends_is_refused(tmp_path: Path, sent: bytes) -> None:
    inside = tmp_path / "in"
    inside.mkdir()
    with pytest.raises(SandboxError):
        receive(io.BytesIO(sent), inside)
    assert [path.name for path in tmp_path.iterdir()] == ["in"]


def test_a_file_is_never_written_twice(tmp_path: Path) -> None:
    with pytest.raises(FileExistsError):
        receive(io.BytesIO(entry("a", b"1") + entry("a", b"2")), tmp_path)
    assert (tmp_path / "a").read_bytes() == b"1"


def sent_from(folder: Path, limit: int = 1 << 20) -> bytes:
    argv = [sys.executable, "-I", "-S", "-c", SEND_SCRIPT, str(limit)]
    return subprocess.run(argv, cwd=folder, capture_output=True, check=True).stdout


def test_what_a_workspace_sends_arrives_without_what_is_more_than_it_can_hold(tmp_path: Path) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    (there / "kernels").mkdir(parents=True)
    here.mkdir()
    (there / "a_hole").touch()
    os.truncate(there / "a_hole", 1 << 40)
    (there / "kernels" / "a.cu").write_bytes(b"k" * 2_000_000)
    (there / "link").symlink_to("/etc/passwd")
    os.mkfifo(there / "pipe")
    receive(io.BytesIO(sent_from(there, 4 << 20)), here)
    assert {path.relative_to(here).as_posix() for path in here.rglob("*")} == {"kernels", "kernels/a.cu"}
    assert (here / "kernels" / "a.cu").read_bytes() == b"k" * 2_000_000


def test_what_is_sent_is_bounded_whoever_sends_it(tmp_path: Path) -> None:
    with (tmp_path / "stream").open("w+b") as file:
        take = into(file, 10)
        take(b"12345")
        with pytest.raises(SandboxError):
            take(b"678901")
        assert file.tell() == 5


def test_a_name_that_is_too_long_here_and_a_time_that_nobody_knows_hold_nothing_up(tmp_path: Path) -> None:
    long = "/".join(["d" * 200] * 25)
    sent = entry(long, kind="D") + entry(f"{long}/a", b"lost") + entry("b", b"kept", mtime_ns=10**40)
    receive(io.BytesIO(sent), tmp_path)
    assert (tmp_path / "b").read_bytes() == b"kept"
