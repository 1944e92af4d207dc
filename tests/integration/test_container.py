"""A container of the docker sandbox: what it is created with, who is who in it, what its limits say, how it ends."""

import json
import os
import subprocess
import uuid
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests import docker_engine

from cuda_agent.sandbox.docker.container import Container, Spec, host_config
from cuda_agent.sandbox.docker.engine import connect
from cuda_agent.sandbox.docker.layout import CACHE, KEPT, LOCKS, MIB, MODEL, TRUSTED, Limits
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent_tools.sandbox import SandboxError

pytestmark = pytest.mark.docker


def inspected(container: Container) -> dict[str, object]:
    done = subprocess.run(["docker", "inspect", container.name], check=True, capture_output=True)
    found: dict[str, object] = json.loads(done.stdout)[0]
    return found


def left() -> str:
    listed = subprocess.run(["docker", "ps", "-aq", "--filter", "label=cuda-agent.run=here"], capture_output=True)
    return listed.stdout.decode()


def test_a_command_runs_as_the_model_s_user_in_the_workspace(docker_sandbox: DockerSandbox) -> None:
    script = "id -u; id -G; pwd; echo $USER $HOME; touch x; grep CapEff /proc/self/status"
    assert docker_sandbox.exec(["bash", "-c", script]).stdout.decode().splitlines() == [
        "2000", "2000", "/workspace", "sandbox /home/sandbox", "CapEff:\t0000000000000000",
    ]  # fmt: skip


def test_every_uid_in_there_has_an_entry_and_a_home(trusted_sandbox: DockerSandbox) -> None:
    script = "import os, pwd; print([os.path.isdir(pwd.getpwuid(uid).pw_dir) for uid in (0, 2000, 65534)])"
    assert trusted_sandbox.exec(["python3", "-c", script]).stdout == b"[True, True, True]\n"


def test_the_container_has_nothing_that_it_does_not_need(container: Container) -> None:
    about = inspected(container)
    config = about["HostConfig"]
    assert isinstance(config, dict)
    expected = {
        "Binds": None,
        "NetworkMode": "none",
        "Privileged": False,
        "ReadonlyRootfs": True,
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "IpcMode": "private",
        "Init": True,
        "AutoRemove": True,
        "DeviceRequests": None,
        "PidsLimit": docker_engine.LIMITS.pids,
        "Memory": docker_engine.LIMITS.memory_bytes,
        "MemorySwap": docker_engine.LIMITS.memory_bytes,
        "NanoCpus": 2_000_000_000,
    }
    assert {name: config[name] for name in expected} == expected
    assert about["Mounts"] == []
    rights = "CapPrm:\t00000000000000e3"  # CHOWN, DAC_OVERRIDE, KILL, SETGID, SETUID
    trusted = DockerSandbox(container, TRUSTED)
    assert rights in trusted.exec(["cat", "/proc/self/status"]).stdout.decode()


def test_a_gpu_is_requested_by_its_uuid_and_only_when_asked_for() -> None:
    engine = connect(os.environ)
    with docker_engine.engine_closed(engine):
        with_gpu = host_config(engine.api, Spec("image", docker_engine.LIMITS, gpus=("GPU-1234",)))
        without = host_config(engine.api, Spec("image", docker_engine.LIMITS))
    assert with_gpu["DeviceRequests"] == [
        {"Driver": "", "Count": 0, "DeviceIDs": ["GPU-1234"], "Capabilities": [["gpu", "compute", "utility"]],
         "Options": {}}
    ]  # fmt: skip
    assert "DeviceRequests" not in without


def test_a_container_that_cannot_start_says_why_and_leaves_nothing() -> None:
    # Where the toolkit is there, this device is not.
    expected = "GPU" if os.path.exists("/dev/nvidiactl") else "nvidia-container-toolkit"
    engine = connect(os.environ)
    with docker_engine.engine_closed(engine):
        container = Container(engine, Spec(docker_engine.IMAGE, docker_engine.LIMITS, run="here", gpus=("GPU-1234",)))
        with pytest.raises(SandboxError, match=expected):
            container.start()
        assert left() == ""
        with pytest.raises(SandboxError, match="not running"):
            DockerSandbox(container, MODEL).exec(["true"])


def test_an_image_that_is_not_there_is_one_sentence() -> None:
    engine = connect(os.environ)
    with docker_engine.engine_closed(engine), pytest.raises(SandboxError, match="`cuda-agent image build`"):
        Container(engine, Spec("cuda-agent-no-such-image:none", docker_engine.LIMITS)).start()


@pytest.mark.parametrize(
    ("limits", "script", "said"),
    [
        (
            Limits(memory_bytes=300 * MIB, cpus=2.0),
            ["python3", "-c", "x = b'x' * 900_000_000"],
            b"sandbox: a process was killed because the sandbox's memory is used up",
        ),
        (
            Limits(memory_bytes=2048 * MIB, cpus=2.0, pids=40),
            ["bash", "-c", "for i in {1..60}; do sleep 300 & done; exit 1"],
            b"sandbox: the sandbox's limit of processes was reached",
        ),
        (
            Limits(memory_bytes=2048 * MIB, cpus=2.0, workspace_bytes=8 * MIB),
            ["bash", "-c", "head -c 20000000 /dev/zero > large"],
            b"sandbox: /workspace is full",
        ),
    ],
)
def test_a_limit_that_was_met_is_named_and_the_sandbox_goes_on(
    limits: Limits, script: Sequence[str], said: bytes
) -> None:
    with docker_engine.running(limits) as container:
        sandbox = DockerSandbox(container, MODEL)
        result = sandbox.exec(script, timeout_s=60)
        assert result.exit_code not in (0, None)
        assert said in result.stderr
        sandbox.exec(["rm", "-f", "large"])
        fine = sandbox.exec(["bash", "-c", "exit 3"])
        assert (fine.exit_code, fine.stderr) == (3, b"")


def test_files_are_memory_and_a_flood_of_them_ends_in_one_place(container: Container) -> None:
    sandbox = DockerSandbox(container, MODEL)
    full = sandbox.exec(["bash", "-c", "head -c 3000000000 /dev/zero > /tmp/large"], timeout_s=120)
    assert full.exit_code == 1
    assert b"sandbox: /tmp is full" in full.stderr
    sandbox.write("still", b"works")
    assert sandbox.read("still") == b"works"


@pytest.mark.parametrize("path", ["/", "/opt/cuda-agent", "/opt/cuda-agent/judge", "/etc", "/usr/bin", "/var/lib"])
def test_the_image_cannot_be_written_to(
    docker_sandbox: DockerSandbox, trusted_sandbox: DockerSandbox, path: str
) -> None:
    for sandbox in (docker_sandbox, trusted_sandbox):
        assert sandbox.exec(["touch", f"{path}/x"]).exit_code == 1


def test_every_place_that_can_be_written_to_has_its_mode_and_owner(trusted_sandbox: DockerSandbox) -> None:
    expected = {
        "/workspace": "755 2000", "/home/sandbox": "700 2000", "/var/lib/sandbox": "700 2000", "/tmp": "1777 0",
        "/var/lib/cuda-agent": "700 0", "/var/lib/cuda-agent-tmp": "711 0", "/run": "755 0",
    }  # fmt: skip
    said = trusted_sandbox.exec(["stat", "-c", "%n %a %u", *expected]).stdout.decode().splitlines()
    assert dict(line.split(" ", 1) for line in said) == expected


def test_the_state_of_the_judge_is_out_of_the_model_s_reach(
    docker_sandbox: DockerSandbox, trusted_sandbox: DockerSandbox
) -> None:
    trusted_sandbox.write("/var/lib/cuda-agent/session/session.json", b"{}")
    trusted_sandbox.write("/var/lib/cuda-agent-tmp/judged/kernel", b"")
    for script in (
        "cat /var/lib/cuda-agent/session/session.json",
        "ls /var/lib/cuda-agent",
        "ls /var/lib/cuda-agent-tmp",
    ):
        refused = docker_sandbox.exec(["bash", "-c", script])
        assert refused.exit_code != 0
        assert b"Permission denied" in refused.stderr


def test_a_command_of_root_that_kills_its_supervisor_leaves_nothing(trusted_sandbox: DockerSandbox) -> None:
    result = trusted_sandbox.exec(["bash", "-c", "setsid sleep 300 & sleep 301 & kill -9 $PPID; sleep 302"])
    assert result.exit_code == 137
    left_over = trusted_sandbox.exec(["bash", "-c", "cat /proc/[0-9]*/comm"]).stdout.split()
    assert b"sleep" not in left_over
    assert b"cat" in left_over  # what keeps the container up, and the one that lists


def test_a_killed_container_is_lost_at_once(container: Container) -> None:
    subprocess.run(["docker", "kill", container.name], check=True, capture_output=True)
    with pytest.raises(SandboxError, match="gone"):
        DockerSandbox(container, MODEL).exec(["true"])


ZOMBIES = """
import os
for pid in filter(str.isdigit, os.listdir("/proc")):
    try:
        state, parent = open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[:2]
    except OSError:
        continue
    if state == "Z":
        print(pid, parent)
"""


def test_no_zombies_pile_up_inside(docker_sandbox: DockerSandbox) -> None:
    for _ in range(20):
        docker_sandbox.exec(["bash", "-c", "for i in 1 2 3 4 5; do (setsid true &); done; setsid sleep 300 &"])
    assert docker_sandbox.exec(["python3", "-c", ZOMBIES]).stdout == b""


def test_the_locks_of_the_machine_are_in_a_folder_that_only_root_gets_into(tmp_path: Path) -> None:
    engine = connect(os.environ)
    with docker_engine.engine_closed(engine):
        container = Container(engine, Spec(docker_engine.IMAGE, docker_engine.LIMITS, locks=str(tmp_path)))
        container.start()
        try:
            model, trusted = DockerSandbox(container, MODEL), DockerSandbox(container, TRUSTED)
            assert trusted.exec(["touch", f"{LOCKS}/made"]).exit_code == 0
            assert (tmp_path / "made").exists()
            for script in (f"ls {LOCKS}", f"flock -n {LOCKS}/made true", f"exec 9< {LOCKS}/made"):
                assert model.exec(["bash", "-c", script]).exit_code != 0
        finally:
            container.stop()


def test_the_volume_of_the_cache_outlives_the_container_and_only_root_gets_to_it() -> None:
    engine = connect(os.environ)
    name = f"test-{uuid.uuid4().hex[:12]}"
    spec = Spec(docker_engine.IMAGE, docker_engine.LIMITS, cache=name)
    make = f"mkdir -m 700 {CACHE}; touch {CACHE}/made; stat -c '%a %u' {CACHE}"
    with docker_engine.engine_closed(engine):
        try:
            for script, answer in ((make, b"700 0\n"), (f"ls {CACHE}", b"made\n")):
                container = Container(engine, spec)
                container.start()
                try:
                    model, trusted = DockerSandbox(container, MODEL), DockerSandbox(container, TRUSTED)
                    assert trusted.exec(["bash", "-c", script]).stdout == answer
                    for attempt in (f"ls {KEPT}", f"touch {CACHE}/planted", f"rm -rf {KEPT}/judge/made"):
                        assert model.exec(["bash", "-c", attempt]).exit_code != 0
                finally:
                    container.stop()
        finally:
            engine.api.remove_volume(name, force=True)
