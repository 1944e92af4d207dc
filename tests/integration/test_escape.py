"""Ways of a model's commands to the host and around its limits; each test names what stands in the way.

Rows that hold for `local` too, where bubblewrap confines it, are checked on both.
"""

import os
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests import docker_engine
from tests.integration import house
from tests.integration.house import House

from cuda_agent.cli import transcript
from cuda_agent.cli.progress import Progress
from cuda_agent.sandbox.confinement import find_confinement
from cuda_agent.sandbox.docker.copying import copy_workspace
from cuda_agent.sandbox.docker.layout import MIB, MODEL, Limits
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent.trajectory import Observation
from cuda_agent_tools.sandbox import ExecResult, Sandbox

pytestmark = pytest.mark.docker

CONFINEMENT = find_confinement(Path(sys.executable), {"PATH": os.defpath})
SECRET = "swordfish-of-the-host"


@dataclass(frozen=True)
class Prison:
    """A sandbox, and a file of the host with the secret in it."""

    sandbox: Sandbox
    secret: Path

    def sh(self, script: str) -> ExecResult:
        return self.sandbox.exec(["bash", "-c", script, "bash", str(self.secret)], timeout_s=60)

    def said(self, script: str) -> str:
        done = self.sh(script)
        return (done.stdout + done.stderr).decode(errors="replace")


@pytest.fixture(scope="module", params=["docker", "local-confined"])
def prison(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prison]:
    folder = tmp_path_factory.mktemp("host")
    secret = folder / "secret"
    secret.write_text(SECRET)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("OPENAI_API_KEY", "AWS_SECRET_ACCESS_KEY", "SOME_TOKEN"):
            patch.setenv(name, SECRET)
        if request.param == "docker":
            with docker_engine.running(run="escape") as container:
                yield Prison(DockerSandbox(container, MODEL), secret)
            return
        if CONFINEMENT.confinement is None:
            pytest.skip(CONFINEMENT.why)
        with LocalSandbox(
            workspace=folder / "w",
            state_dir=folder / "s",
            python=Path(sys.executable),
            confinement=CONFINEMENT.confinement,
        ) as local:
            yield Prison(local, secret)


HOST_FILES = {
    "by its path": 'cat "$1"',
    "by a link": 'ln -sf "$1" link; cat link',
    "from above": 'cat "../../../../../../../..$1"',
    "by the first process's root": 'cat "/proc/1/root$1" "/proc/1/cwd$1"',
    "by any process's root": 'for p in /proc/[0-9]*; do cat "$p/root$1"; done',
    "by a descriptor that was left open": 'for f in /proc/[0-9]*/fd/*; do cat "$f$1" </dev/null; done',
    "by searching": 'find / -xdev -name "$(basename "$1")" -size -2 -exec grep -s swordfish {} + 2>/dev/null',
    "by the disk": 'mknod "$HOME/disk" b 8 0 && head -c 1000000 "$HOME/disk"; cat /dev/sda /dev/vda /dev/nvme0n1',
    "by the kernel's memory": "head -c 100 /dev/mem /dev/kmem /proc/kcore",
    "by mounting": 'mkdir -p m; mount -o bind / m || unshare -Urm mount -o bind / m; cat "m$1"',
    "by another namespace": 'nsenter -t 1 -a cat "$1"; unshare -Ur nsenter -t 1 -m cat "$1"',
}


@pytest.mark.parametrize("script", HOST_FILES.values(), ids=HOST_FILES.keys())
def test_files_of_the_host_cannot_be_read(prison: Prison, script: str) -> None:
    """A file system of its own, a PID namespace, and no right to mount or to make devices."""
    assert SECRET not in prison.said(script)


def test_the_environment_of_the_host_is_not_inside(prison: Prison) -> None:
    """An environment built from nothing, and none of the host's processes in sight."""
    assert SECRET not in prison.said("env; set; cat /proc/*/environ; tr '\\0' ' ' < /proc/1/cmdline")


NETWORK = {
    "the machine's loopback": "exec 3<>/dev/tcp/127.0.0.1/{port}",
    "the machine's address": "exec 3<>/dev/tcp/{address}/{port}",
    "the metadata service": "exec 3<>/dev/tcp/169.254.169.254/80",
    "the metadata service by IPv6": "exec 3<>/dev/tcp/fd00:ec2::254/80",
    "a bridge's gateway": "exec 3<>/dev/tcp/172.17.0.1/22",
    "a name": "exec 3<>/dev/tcp/example.com/80",
    "the host by its name": "exec 3<>/dev/tcp/host.docker.internal/80",
    "a name server": 'python3 -c \'import socket; socket.socket(2, 2).sendto(b"x", ("1.1.1.1", 53))\'',
    "raw packets": "python3 -c 'import socket; socket.socket(17, 3).send(b\"x\" * 60)'",
    "a new interface": "ip link add d type dummy && ip addr add 10.0.0.1/8 dev d",
    "an abstract socket": "python3 -c 'import socket; socket.socket(1).connect(\"\\0{name}\")'",
}


@pytest.mark.parametrize("script", NETWORK.values(), ids=NETWORK.keys())
def test_there_is_no_network(prison: Prison, script: str) -> None:
    """A network namespace with nothing in it but its own loopback, and no right to add to it."""
    with socket.create_server(("0.0.0.0", 0)) as host, socket.socket(socket.AF_UNIX) as abstract:
        abstract.bind(f"\0{prison.secret.parent.name}")
        abstract.listen()
        address = socket.gethostbyname(socket.gethostname())
        filled = script.replace("{port}", str(host.getsockname()[1])).replace("{address}", address)
        assert prison.sh(filled.replace("{name}", prison.secret.parent.name)).exit_code not in (0, None)


def test_there_is_no_socket_of_a_container_daemon(prison: Prison) -> None:
    """Nothing of the host is mounted; in `local` /run is hidden."""
    found = prison.said(
        "find / -xdev -type s -name '*.sock' 2>/dev/null; ls -d /run/docker* /var/run/docker* /run/containerd*"
    )
    assert not [line for line in found.splitlines() if line.endswith(".sock")]
    assert prison.sh("test -S /var/run/docker.sock || test -S /run/docker.sock").exit_code == 1


@pytest.fixture(scope="module")
def tight(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    """A house with little room."""
    limits = Limits(memory_bytes=1536 * MIB, cpus=2.0, pids=200, workspace_bytes=64 * MIB)
    with house.opened(tmp_path_factory.mktemp("tight"), limits) as one:
        yield one


FILLING = {
    "the workspace": ("head -c 1G /dev/zero > big", "/workspace is full"),
    "the workspace, by many files": (
        'python3 -c \'for i in range(10**6): open(f"f{i}", "w").close()\'',
        "/workspace is full",
    ),
    "its home": ("head -c 2G /dev/zero > ~/big", "/home/sandbox is full"),
    "processes": ("for i in $(seq 1000); do sleep 60 & done; wait", "limit of processes was reached"),
    "memory": ("python3 -c 'x = bytearray(8 << 30)'", ""),
    "memory that is used": ("python3 -c 'b\"x\" * (4 << 30)'", "memory is used up"),
    "memory by files": ("head -c 2G /dev/zero > /tmp/a; head -c 2G /dev/zero > /dev/shm/b", "full"),
}


@pytest.mark.parametrize(("script", "named"), FILLING.values(), ids=FILLING.keys())
def test_what_is_used_up_is_named_and_the_run_goes_on(tight: House, script: str, named: str) -> None:
    """Limits of the container's cgroup and of each of its file systems; the judge's places are not the model's."""
    tight.start_over()
    done = tight.sh(script, timeout_s=120)
    assert done.exit_code != 0
    assert named in done.stderr.decode(errors="replace")
    assert tight.sh("rm -rf ~/* /tmp/* /dev/shm/* /workspace/f* /workspace/big; echo on").stdout == b"on\n"
    tight.start_over()
    assert tight.sh("bash utils/compile.sh").exit_code == 0  # the judge is still there


OUTSIDE = {
    "a link to a file": "ln -s /etc/passwd link",
    "a link to a folder": "ln -s /etc folder; ln -s / kernels/root",
    "a pipe": "mkfifo pipe",
    "a socket": "python3 -c 'import socket; socket.socket(1).bind(\"s\")'",
    "a folder that is shut": "mkdir shut; touch shut/x; chmod 0 shut",
    "a program with another's rights": "cp /bin/true su; chmod 6777 su",
    "a name with line ends": "touch $'a\\nF 644 0 5 x\\nb'",
    "a name that is no text": "touch $'\\xff\\xfe'",
    "a loop": "ln -s . loop; ln -s loop2 loop2",
}


@pytest.mark.parametrize("script", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_what_is_copied_out_are_plain_files_of_the_caller(tight: House, tmp_path: Path, script: str) -> None:
    """The host writes what a command inside sends into a new folder: no link, no device, no special right."""
    tight.start_over()
    assert tight.sh(f"echo kept > kept; {script}").exit_code == 0
    (tmp_path / "outside").write_text("untouched")
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "kept").symlink_to(tmp_path / "outside")
    copy_workspace(tight.model, tmp_path / "out")
    assert (tmp_path / "out" / "kept").read_text() == "kept\n"
    assert (tmp_path / "outside").read_text() == "untouched"
    for path in (tmp_path / "out").rglob("*"):
        about = path.lstat()
        assert path.is_dir() or path.is_file()
        assert not path.is_symlink()
        assert (about.st_uid, about.st_mode & 0o7000) == (os.getuid(), 0)


SEQUENCES = {
    "clear": "\x1b[2J\x1b[H",
    "title": "\x1b]0;pwned\x07",
    "clipboard": "\x1b]52;c;cm0gLXJmIC8=\x1b\\",
    "report": "\x1b[6n\x1b[c",
    "eight bits": "\x9b2J\x9d0;x\x9c",
    "right to left": "\u202egpj.exe",
    "overwrite": "fine\rrm -rf /",
}


@pytest.mark.parametrize("sequence", SEQUENCES.values(), ids=SEQUENCES.keys())
def test_nothing_a_terminal_obeys_gets_to_it(prison: Prison, sequence: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Progress lines and the transcript show printable characters only."""
    done = prison.sandbox.exec(["printf", "%s", f"before {sequence} after"])
    event = Observation(1, "a", "Bash", done.stdout.decode(), False, 0.1)
    Progress().on_event(event)
    shown = capsys.readouterr().out + "\n".join(transcript.lines(event))
    assert "before" in shown
    assert all(char.isprintable() or char in "\n\t" for char in shown)


def test_output_without_an_end_is_cut_while_it_is_read(prison: Prison) -> None:
    """The host keeps the first and the last half of what it was asked to keep."""
    done = prison.sandbox.exec(["bash", "-c", "yes | head -c 100000000"], max_bytes=1000)
    assert (len(done.stdout), done.stdout_dropped) == (1000, 100_000_000 - 1000)
