"""What a container sends as its workspace, written to a folder of the host."""

import base64
import io
import os
from pathlib import Path

import pytest

from cuda_agent.sandbox.docker.copying import receive
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
