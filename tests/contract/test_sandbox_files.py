"""Files of a sandbox, as its own user sees them."""

import os
import time

import pytest

from cuda_agent_tools.sandbox import Sandbox


def test_what_is_written_is_read(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 10 + b"\r\n\xff"
    sandbox.write("deep/er/file ü.bin", data)
    assert sandbox.read("deep/er/file ü.bin") == data
    assert sandbox.read(f"{sandbox.workspace}/deep/er/file ü.bin") == data
    assert sandbox.exec(["cat", "deep/er/file ü.bin"]).stdout == data


def test_large_and_empty_files(sandbox: Sandbox) -> None:
    data = os.urandom(1000) * 8000
    sandbox.write("large", data)
    assert sandbox.read("large") == data
    sandbox.write("large", b"")
    assert sandbox.read("large") == b""


def test_a_file_beyond_the_limit_is_not_read(sandbox: Sandbox) -> None:
    sandbox.write("f", b"12345")
    assert sandbox.read("f", max_bytes=5) == b"12345"
    with pytest.raises(ValueError, match="larger than 4"):
        sandbox.read("f", max_bytes=4)


def test_what_cannot_be_read_is_said(sandbox: Sandbox) -> None:
    sandbox.exec(["bash", "-c", "mkdir dir; mkfifo pipe; ln -s loop loop; ln -s nowhere dangling; touch file"])
    with pytest.raises(FileNotFoundError, match="missing"):
        sandbox.read("missing")
    with pytest.raises(FileNotFoundError):
        sandbox.read("dangling")
    with pytest.raises(IsADirectoryError):
        sandbox.read("dir")
    with pytest.raises(NotADirectoryError):
        sandbox.read("file/below")
    with pytest.raises(OSError, match="not a regular file"):
        sandbox.read("pipe")
    with pytest.raises(OSError, match="not a regular file"):
        sandbox.read("/dev/zero")
    with pytest.raises(OSError, match="symbolic links"):
        sandbox.read("loop")


def test_what_cannot_be_written_is_said_and_leaves_nothing(sandbox: Sandbox) -> None:
    sandbox.exec(["bash", "-c", "mkdir dir; mkfifo pipe; echo old > file"])
    with pytest.raises(IsADirectoryError):
        sandbox.write("dir", b"")
    with pytest.raises(NotADirectoryError):
        sandbox.write("file/below", b"")
    with pytest.raises(OSError, match="not a regular file"):
        sandbox.write("pipe", b"")
    with pytest.raises(OSError, match="too long"):
        sandbox.write("n" * 300, b"")
    assert sandbox.exec(["ls", "-A"]).stdout == b"dir\nfile\npipe\n"
    assert sandbox.read("file") == b"old\n"


def test_permissions_hold_for_the_sandbox_s_user(sandbox: Sandbox, as_root: bool) -> None:
    sandbox.exec(["bash", "-c", "echo secret > mine; chmod 000 mine; mkdir shut; chmod 555 shut"])
    allowed = sandbox.exec(["bash", "-c", "cat mine && touch shut/x"]).exit_code == 0
    assert allowed == as_root
    if as_root:
        assert sandbox.read("mine") == b"secret\n"
        sandbox.write("shut/y", b"")
    else:
        with pytest.raises(PermissionError):
            sandbox.read("mine")
        with pytest.raises(PermissionError):
            sandbox.write("shut/y", b"")
        with pytest.raises(PermissionError):
            sandbox.write("mine", b"")
    sandbox.exec(["chmod", "755", "shut"])


def test_the_mode_of_a_file_is_kept(sandbox: Sandbox) -> None:
    sandbox.exec(["bash", "-c", "echo > run.sh; chmod 751 run.sh"])
    sandbox.write("run.sh", b"#!/bin/sh\n")
    assert sandbox.exec(["stat", "-c", "%a", "run.sh"]).stdout == b"751\n"


def test_links_out_of_the_workspace_are_what_they_are_to_its_user(sandbox: Sandbox) -> None:
    outside = sandbox.exec(["mktemp", "-d"]).stdout.decode().strip()
    sandbox.write(f"{outside}/file", b"there")
    sandbox.exec(["ln", "-s", f"{outside}/file", "link"])
    sandbox.exec(["ln", "-s", outside, "folder"])
    assert sandbox.read("link") == sandbox.exec(["cat", "link"]).stdout == b"there"
    sandbox.write("link", b"written")
    sandbox.write("folder/new", b"new")
    assert sandbox.read(f"{outside}/file") == b"written"
    assert sandbox.read(f"{outside}/new") == b"new"
    assert sandbox.exec(["bash", "-c", "test -L link && test -L folder"]).exit_code == 0


def test_times_are_of_the_present_and_newer_than_before(sandbox: Sandbox) -> None:
    start = time.time()
    times = []
    for number in range(5):
        sandbox.write("f", str(number).encode())
        times.append(float(sandbox.exec(["stat", "-c", "%.9Y", "f"]).stdout))
    assert times == sorted(set(times))
    assert start - 1 < times[0]
    assert times[-1] <= time.time()


def test_a_time_in_the_future_becomes_the_present(sandbox: Sandbox) -> None:
    sandbox.exec(["touch", "-d", "2099-01-01", "f"])
    sandbox.write("f", b"x")
    assert float(sandbox.exec(["stat", "-c", "%.9Y", "f"]).stdout) <= time.time()
