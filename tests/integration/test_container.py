"""A container of the docker sandbox: what it is created with, who is who in it, and how it ends."""

import pytest

from cuda_agent.sandbox.docker.sandbox import DockerSandbox

pytestmark = pytest.mark.docker


def test_a_command_runs_as_the_model_s_user_in_the_workspace(docker_sandbox: DockerSandbox) -> None:
    result = docker_sandbox.exec(
        ["bash", "-c", "id -u; id -G; pwd; echo $USER $HOME; touch x; cat /proc/self/status | grep CapEff"]
    )
    assert result.stdout.decode().splitlines() == [
        "2000", "2000", "/workspace", "sandbox /home/sandbox", "CapEff:\t0000000000000000",
    ]  # fmt: skip


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
