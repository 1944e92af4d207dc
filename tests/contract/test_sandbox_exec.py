"""What every sandbox does with a command."""

import os
import resource
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

from cuda_agent_tools.sandbox import ExecResult, Sandbox

if TYPE_CHECKING:
    from tests.contract.conftest import Processes


def sh(sandbox: Sandbox, script: str, **options: object) -> ExecResult:
    return sandbox.exec(["bash", "-c", script], **options)  # type: ignore[arg-type]


def test_streams_and_exit_code_come_back(sandbox: Sandbox) -> None:
    result = sh(sandbox, "echo out; echo err >&2; exit 5")
    assert (result.exit_code, result.stdout, result.stderr) == (5, b"out\n", b"err\n")
    assert not result.timed_out
    assert result.duration_s > 0


def test_words_are_handed_over_unchanged(sandbox: Sandbox) -> None:
    words = ["a b", "$HOME", "*", "'\"", "", "line\nbreak", "ü"]
    result = sandbox.exec(["printf", "%s|", *words])
    assert result.stdout.decode() == "".join(word + "|" for word in words)


def test_a_command_starts_in_the_workspace(sandbox: Sandbox) -> None:
    assert sandbox.exec(["pwd"]).stdout.decode() == sandbox.workspace + "\n"


def test_a_relative_cwd_is_taken_from_the_workspace(sandbox: Sandbox) -> None:
    sandbox.exec(["mkdir", "-p", "a/b"])
    assert sandbox.exec(["pwd"], cwd="a/b").stdout.decode() == f"{sandbox.workspace}/a/b\n"


def test_a_cwd_that_is_no_directory_is_said(sandbox: Sandbox) -> None:
    sandbox.write("file", b"")
    for cwd in ("nowhere", "file"):
        with pytest.raises(NotADirectoryError):
            sandbox.exec(["true"], cwd=cwd)


def test_a_missing_program_is_said(sandbox: Sandbox) -> None:
    with pytest.raises(FileNotFoundError, match="no-such-program"):
        sandbox.exec(["no-such-program"])


def test_a_file_that_may_not_be_executed_is_said(sandbox: Sandbox) -> None:
    sandbox.write("plain", b"#!/bin/sh\n")
    sandbox.exec(["chmod", "644", "plain"])
    with pytest.raises(PermissionError):
        sandbox.exec(["./plain"])


@pytest.mark.parametrize("argv", [[], ["echo", "a\0b"]])
def test_what_no_system_can_run_is_refused(sandbox: Sandbox, argv: list[str]) -> None:
    with pytest.raises(ValueError, match="NUL"):
        sandbox.exec(argv)


def test_env_is_added_to_the_sandbox_s_own(sandbox: Sandbox) -> None:
    result = sh(sandbox, 'echo "$ADDED|$LANG|$PYTHONNOUSERSITE|${HOME:+home}|$USER"', env={"ADDED": "a b"})
    assert result.stdout == b"a b|C.UTF-8|1|home|sandbox\n"


def test_home_and_tmp_are_there_and_not_in_the_workspace(sandbox: Sandbox) -> None:
    result = sh(sandbox, 'cd "$HOME" && pwd && cd "$TMPDIR" && pwd && touch x')
    home, tmp = result.stdout.decode().splitlines()
    assert result.exit_code == 0
    assert not home.startswith(sandbox.workspace)
    assert not tmp.startswith(sandbox.workspace)


def test_the_host_s_keys_and_packages_stay_out(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "PYTHONPATH", "LD_PRELOAD", "SOME_TOKEN"):
        monkeypatch.setenv(name, "/host-secret")
    result = sh(sandbox, 'env; cat "/proc/$PPID/environ" | tr "\\0" "\\n"; set')
    assert b"host-secret" not in result.stdout
    paths = sandbox.exec(["python3", "-c", "import sys; print(sys.path, sys.flags.no_user_site)"])
    assert b"host-secret" not in paths.stdout
    assert paths.stdout.endswith(b" 1\n")


def test_only_the_usual_descriptors_are_open(sandbox: Sandbox) -> None:
    with open(os.devnull) as file:
        os.set_inheritable(file.fileno(), True)
        result = sandbox.exec(["python3", "-c", "import os; print(sorted(map(int, os.listdir('/proc/self/fd')))[:4])"])
    assert result.stdout == b"[0, 1, 2, 3]\n"  # 3 is the listing itself


@pytest.mark.parametrize("argv", [["cat"], ["python3"], ["bash", "-c", "read x; echo code $?"]])
def test_stdin_is_at_its_end(sandbox: Sandbox, argv: Sequence[str]) -> None:
    result = sandbox.exec(argv, timeout_s=30)
    assert result.exit_code == 0
    assert result.stdout in (b"", b"code 1\n")


def test_a_large_stdin_arrives_whole(sandbox: Sandbox) -> None:
    assert sandbox.exec(["wc", "-c"], stdin=b"x" * 20_000_000).stdout.strip() == b"20000000"


def test_a_command_may_leave_its_stdin_unread(sandbox: Sandbox) -> None:
    assert sandbox.exec(["true"], stdin=b"x" * 5_000_000).exit_code == 0


def test_large_input_and_output_do_not_block_each_other(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * 20_000
    assert sandbox.exec(["cat"], stdin=data, max_bytes=2 * len(data)).stdout == data


def test_of_a_flood_the_ends_are_kept_and_the_rest_is_counted(sandbox: Sandbox) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result = sh(sandbox, "echo first; head -c 300000000 /dev/zero; echo last", max_bytes=10_000)
    assert result.stdout.startswith(b"first\n\0")
    assert result.stdout.endswith(b"\0last\n")
    assert len(result.stdout) == 10_000
    assert result.stdout_dropped == 300_000_011 - 10_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50_000  # KiB


def test_nothing_is_dropped_below_the_limit(sandbox: Sandbox) -> None:
    result = sh(sandbox, "printf %s 0123456789", max_bytes=10)
    assert (result.stdout, result.stdout_dropped) == (b"0123456789", 0)
    result = sh(sandbox, "printf %s 0123456789 >&2", max_bytes=5)
    assert (result.stderr, result.stderr_dropped) == (b"01789", 5)


def test_output_is_seen_as_it_comes(sandbox: Sandbox) -> None:
    sandbox.exec(["mkfifo", "go"])
    pieces: list[bytes] = []
    let_go = threading.Thread(target=lambda: sh(sandbox, "echo > go"))

    def see(data: bytes) -> None:
        pieces.append(data)
        if data == b"one\n":
            let_go.start()  # only now may the command go on

    result = sh(sandbox, "echo one; read x < go; echo two >&2", on_output=see, timeout_s=60)
    let_go.join()
    assert not result.timed_out
    assert pieces == [b"one\n", b"two\n"]


def test_an_error_while_watching_ends_the_command(sandbox: Sandbox, processes: "Processes") -> None:
    def stop(data: bytes) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sh(sandbox, "echo x; setsid sleep 300 & sleep 301", on_output=stop, env=processes.env)
    assert processes.left() == []


def test_undecodable_output_is_bytes(sandbox: Sandbox) -> None:
    assert sh(sandbox, r"printf '\xff\xfe\x00ok'").stdout == b"\xff\xfe\x00ok"


@pytest.mark.parametrize(("signal", "code"), [("KILL", 137), ("SEGV", 139), ("TERM", 143)])
def test_a_signal_is_128_and_its_number(sandbox: Sandbox, signal: str, code: int) -> None:
    assert sh(sandbox, f"kill -{signal} $$").exit_code == code


def test_a_broken_pipe_ends_its_writer(sandbox: Sandbox) -> None:
    result = sh(sandbox, "yes | head -n 1; echo ${PIPESTATUS[0]}", timeout_s=60)
    assert result.stdout == b"y\n141\n"


def test_many_quick_commands(sandbox: Sandbox) -> None:
    spent = time.process_time() + sum(os.times()[2:4])
    for number in range(500):
        assert sandbox.exec(["echo", str(number)]).stdout == f"{number}\n".encode()
    assert time.process_time() + sum(os.times()[2:4]) - spent < 500 * 0.1  # CPU seconds, children included
    assert len(os.listdir("/proc/self/fd")) < 100


def test_commands_run_beside_each_other(sandbox: Sandbox) -> None:
    sandbox.exec(["mkfifo", "a", "b"])
    results: list[ExecResult] = []
    scripts = ["echo 1 > a; read x < b", "read x < a; echo 2 > b"]  # each waits for the other
    threads = [
        threading.Thread(target=lambda s=script: results.append(sh(sandbox, s, timeout_s=60))) for script in scripts
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [result.exit_code for result in results] == [0, 0]
