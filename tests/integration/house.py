"""A container with everything that a run has in it: the workspace, the judge's session and the judge that serves it."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests import docker_engine

from cuda_agent.installing import Rules, write_files
from cuda_agent.judging import Judge, Submission
from cuda_agent.operators import load
from cuda_agent.resources import tree, workspace_template
from cuda_agent.runs.in_docker import judge_service
from cuda_agent.sandbox.docker.container import Container
from cuda_agent.sandbox.docker.layout import JUDGE_HOME, JUDGE_SOCKET, MODEL, PYTHON, TRUSTED, WORKSPACE, Limits
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent.sandbox.service import SOCKET_VARIABLE
from cuda_agent.snapshots import Snapshots
from cuda_agent.workspace import Workspace
from cuda_agent_tools.sandbox import ExecResult

OPERATOR = """# the pristine operator
import torch
class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
def get_inputs():
    return [torch.rand(64, 64)]
"""
RIGHT = """import torch
class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2
"""


@dataclass(frozen=True)
class House:
    """Who is at home in a container."""

    container: Container
    model: DockerSandbox
    trusted: DockerSandbox
    judge: Judge

    def sh(self, script: str, *words: str, timeout_s: float = 60.0) -> ExecResult:
        """Run a script as the model does."""
        return self.model.exec(["bash", "-c", script, "bash", *words], timeout_s=timeout_s)

    def root(self, script: str) -> str:
        """Run a script as the host does; what it printed."""
        done = self.trusted.exec(["bash", "-c", script], timeout_s=60)
        assert done.exit_code == 0, done.stderr
        return done.stdout.decode()

    def verify(self) -> ExecResult:
        """Ask the judge as a model does."""
        return self.model.exec(["python3", "-m", "utils.verification"], timeout_s=300)

    def submission(self) -> Submission:
        """Read the submission as the host does at the end of a turn."""
        with tempfile.TemporaryDirectory() as folder, Snapshots(Path(folder)) as store:
            return Workspace(self.model, store, python=PYTHON).capture(0).submission

    def start_over(self) -> None:
        """Give the model a fresh workspace with a right submission."""
        self.root("find /workspace /tmp -mindepth 1 -delete")
        files = {f"{WORKSPACE}/{name}": data for name, data in tree(workspace_template()).items()}
        files |= {f"{WORKSPACE}/kernels/": b"", f"{WORKSPACE}/model_new.py": RIGHT.encode()}
        write_files(self.model, PYTHON, files)


@contextmanager
def opened(folder: Path, limits: Limits = docker_engine.LIMITS) -> Iterator[House]:
    """Start it; the operator's file is put into `folder`."""
    (folder / "model.py").write_text(OPERATOR)
    with docker_engine.running(limits, run="escape") as container:
        model = DockerSandbox(container, MODEL, extra_env={SOCKET_VARIABLE: JUDGE_SOCKET})
        trusted = DockerSandbox(container, TRUSTED)
        judge = Judge(trusted, python=PYTHON, judge_home=JUDGE_HOME)
        judge.install(load(folder / "model.py"), Rules(libraries="any"))
        house = House(container, model, trusted, judge)
        house.start_over()
        judge.served = judge_service(trusted).start()
        yield house
