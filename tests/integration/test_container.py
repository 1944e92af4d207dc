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
