"""What the namespaces around the commands of `local` keep off, on a machine where bubblewrap works."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cuda_agent.sandbox.confinement import Confinement, find_confinement
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.sandbox import SandboxLost

PYTHON = Path(sys.executable)
ENV = {"PATH": os.defpath}
FOUND = find_confinement(PYTHON, ENV)
HERE = str(Path(__file__).resolve().parent)
"""A folder that is certainly not empty; it stands for a home."""

confined = pytest.mark.skipif(FOUND.confinement is None, reason=FOUND.why)
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has these rights to lose")


@pytest.fixture
def confinement() -> Confinement:
    assert FOUND.confinement is not None
    return FOUND.confinement


@pytest.fixture
def sandbox(tmp_path: Path, confinement: Confinement) -> Iterator[LocalSandbox]:
    hiding = replace(confinement, hidden=(*confinement.hidden, HERE))
    with LocalSandbox(workspace=tmp_path / "w", state_dir=tmp_path / "s", python=PYTHON, confinement=hiding) as started:
        yield started


def sh(sandbox: LocalSandbox, script: str, *words: str) -> tuple[int | None, str]:
    done = sandbox.exec(["bash", "-c", script, "bash", *words], timeout_s=60)
    return done.exit_code, (done.stdout + done.stderr).decode()


@confined
def test_hidden_folders_are_empty_but_for_what_the_tools_need(sandbox: LocalSandbox, confinement: Confinement) -> None:
    assert sh(sandbox, 'ls -A "$1" 2>/dev/null || true', HERE) == (0, "")  # in /tmp it is not even there
    for folder in confinement.hidden:
        needed = {Path(path).relative_to(folder).parts[0] for path in confinement.shown if path.startswith(folder)}
        seen = set(sh(sandbox, 'ls -A "$1" 2>/dev/null', folder)[1].split("\n")) - {""}
        assert seen - {Path(sys.executable).relative_to("/").parts[0]} <= needed | _on_the_way(sandbox, folder)


def _on_the_way(sandbox: LocalSandbox, folder: str) -> set[str]:
    """What leads to the checkout's supervisor and to the sandbox's own directories."""
    ways = [Path(HERE), Path(sandbox.workspace), Path(sandbox.state_dir)]
    return {way.relative_to(folder).parts[0] for way in ways if way.is_relative_to(folder)}


@confined
def test_nothing_else_can_be_written_to(sandbox: LocalSandbox, confinement: Confinement) -> None:
    # Whatever is mounted for writing, by the field that says so.
    code, mounts = sh(sandbox, "awk '$6 ~ /^rw/ {print $5}' /proc/self/mountinfo | sort -u")
    own = {sandbox.workspace, sandbox.state_dir, "/tmp", "/var/tmp", "/proc", "/dev", "/dev/pts"}
    devices = {mount for mount in mounts.split() if mount.startswith("/dev/")}
    assert code == 0
    assert set(mounts.split()) - devices <= own
    for place in ("/", "/usr", "/etc", HERE, *confinement.hidden):
        code, said = sh(sandbox, 'touch "$1/x"', place)
        assert code == 1
        # A folder in the machine's /tmp is not there at all.
        assert any(words in said for words in ("Read-only file system", "Permission denied", "No such file"))


@confined
def test_temporary_files_are_kept_between_commands_and_are_not_the_machine_s(
    sandbox: LocalSandbox, tmp_path: Path
) -> None:
    (tmp_path / "private").write_text("the machine's")
    note = f"note-{os.urandom(8).hex()}"
    assert sh(sandbox, 'echo kept > "/tmp/$2"; cat "$1"', str(tmp_path / "private"), note)[0] == 1
    assert sh(sandbox, 'cat "/var/tmp/$1" "$TMPDIR/$1"', note) == (0, "kept\nkept\n")
    assert not Path("/tmp", note).exists()


@confined
def test_there_is_no_network(sandbox: LocalSandbox) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        attempts = [f"127.0.0.1/{port}", "169.254.169.254/80", "1.1.1.1/53", "example.com/80"]
        for attempt in attempts:
            assert sh(sandbox, f"exec 3<>/dev/tcp/{attempt}")[0] == 1, attempt
    assert sh(sandbox, "ls /sys/class/net /proc/self/net/dev; tail -n +3 /proc/net/dev | cut -d: -f1")[1].split()[
        -1
    ] == ("lo")


@confined
def test_abstract_sockets_of_the_machine_are_out_of_reach(sandbox: LocalSandbox, tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as host:
        host.bind(f"\0{tmp_path.name}")
        host.listen()
        script = f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{tmp_path.name}')"
        done = sandbox.exec(["python3", "-c", script])
    assert b"ConnectionRefusedError" in done.stderr


@confined
def test_no_process_of_the_machine_is_seen_or_signalled(sandbox: LocalSandbox) -> None:
    pids = sh(sandbox, "ls /proc | grep -c '^[0-9]'")[1]
    assert int(pids) < 10
    assert sh(sandbox, f"kill -0 {os.getpid()} && tr '\\0' ' ' < /proc/{os.getpid()}/cmdline")[1].count("pytest") == 0


@confined
def test_what_leaves_its_session_ends_with_the_command_even_without_a_supervisor(sandbox: LocalSandbox) -> None:
    code, _ = sh(sandbox, "setsid sleep 30047 & kill -9 $PPID; sleep 30047")
    assert code == 137
    assert not [pid for pid in filter(str.isdigit, os.listdir("/proc")) if _sleeps(pid)]


def _sleeps(pid: str) -> bool:
    try:
        return b"sleep\x0030047" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


@confined
@as_root
@pytest.mark.parametrize(
    "script",
    [
        "umount /root",
        "mount -t tmpfs none /mnt",
        "mount -o remount,rw /",
        'mknod "$TMPDIR/disk" b 8 0',
        "echo /x > /proc/sys/kernel/core_pattern",
        "echo h > /proc/sysrq-trigger",
        "unshare -m umount /root",
        "unshare -Urm umount /root",
        "chroot /proc/1/root ls /root/.ssh",
        "nsenter -t 1 -m true",
        "hostname other",
        "ip link set lo down || ifconfig lo down",
        "dmesg -C",
    ],
)
def test_root_inside_cannot_undo_it(sandbox: LocalSandbox, script: str) -> None:
    code, said = sh(sandbox, script)
    assert code not in (0, None), said


def test_without_bubblewrap_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_confinement(PYTHON, ENV)
    assert found.confinement is None
    assert found.why == "unconfined: install bubblewrap to keep it off your files and network"


def test_a_bubblewrap_that_does_not_work_counts_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_confinement(PYTHON, ENV)
    assert found.confinement is None
    assert found.why == "unconfined: bwrap does not work here (No permissions to create new namespace)"


def test_a_toolkit_in_a_home_stays_in_sight_and_the_home_does_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "cuda/bin").mkdir(parents=True)
    (tmp_path / "cuda/nvvm").mkdir()
    (tmp_path / "bin").mkdir()
    (tmp_path / "cuda/bin/nvcc").write_text("#!/bin/sh\n")
    (tmp_path / "cuda/bin/nvcc").chmod(0o755)
    (tmp_path / "bin/nvcc").symlink_to("../cuda/bin/nvcc")
    (tmp_path / "private").write_text("")
    (tmp_path / "fake").mkdir()
    (tmp_path / "fake/bwrap").write_text("#!/bin/sh\necho inside\n")
    (tmp_path / "fake/bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "fake"))
    found = find_confinement(PYTHON, {"PATH": f"{tmp_path}/bin"})
    assert found.confinement is not None
    assert str(tmp_path) in found.confinement.hidden
    shown = [path for path in found.confinement.shown if path.startswith(str(tmp_path))]
    assert shown == [f"{tmp_path}/bin", f"{tmp_path}/cuda"]


@confined
def test_commands_that_run_beside_each_other_see_and_end_each_other(sandbox: LocalSandbox) -> None:
    ended: list[int | None] = []
    started = threading.Event()
    pids: list[bytes] = []

    def said(data: bytes) -> None:
        pids.append(data)
        started.set()

    def run() -> None:
        ended.append(sandbox.exec(["bash", "-c", "echo $$; exec sleep 30047"], on_output=said).exit_code)

    thread = threading.Thread(target=run)
    thread.start()
    assert started.wait(60)
    assert sh(sandbox, f"kill {int(pids[0])}") == (0, "")
    thread.join()
    assert ended == [143]


@confined
@pytest.mark.parametrize("script", ["kill -9 1", "kill -9 -1", "kill -INT 1; kill -TERM 1; kill -HUP 1; kill -STOP 1"])
def test_the_first_process_of_the_namespace_takes_no_signal(sandbox: LocalSandbox, script: str) -> None:
    sh(sandbox, script)
    assert sh(sandbox, "echo on") == (0, "on\n")


@confined
def test_a_sandbox_whose_namespace_is_gone_is_lost(sandbox: LocalSandbox) -> None:
    holder = next(pid for pid in filter(str.isdigit, os.listdir("/proc")) if _holds(pid, sandbox.state_dir))
    os.kill(int(holder), signal.SIGKILL)
    while _exists(holder):
        time.sleep(0.02)
    with pytest.raises(SandboxLost, match="start the run again"):
        sandbox.exec(["true"])


def _exists(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _holds(pid: str, state_dir: str) -> bool:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"--info-fd" in words and state_dir.encode() in words
