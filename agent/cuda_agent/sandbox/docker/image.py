"""The sandbox's image: what it is made of, what is known of the one that is there, and whether it still fits."""

import hashlib
from dataclasses import dataclass
from typing import Literal

from docker.errors import ImageNotFound

from cuda_agent.resources import dockerfile, judge_main, judge_package, run_command, tree, workspace_template
from cuda_agent.sandbox.docker.engine import ERRORS, Engine
from cuda_agent.sandbox.environment import SUDO
from cuda_agent.sandbox.process import SUPERVISOR

BASE = "nvidia/cuda:13.0.2-devel-ubuntu24.04"
"""CUDA's compiler and Python 3.12."""
PREFIX = "cuda-agent.image"
BUILD = "`cuda-agent image build`"


@dataclass(frozen=True)
class Recipe:
    """What a person chooses for an image."""

    base: str = BASE
    python: str = "3.12"
    """The base's Python, for which packages are downloaded."""
    torch: str = "torch==2.13.0"
    """As pip takes it."""

    @property
    def sha256(self) -> str:
        """Over the choices."""
        return hashlib.sha256(f"{self.base}\0{self.python}\0{self.torch}".encode()).hexdigest()


@dataclass(frozen=True)
class Image:
    """An image that is there, as its labels describe it."""

    id: str
    context: str
    """The digest of what it was built from; see `context_sha256`."""
    recipe: str
    python: str
    torch: str
    cuda: str
    """The CUDA version of its torch, "" for a build for the CPU."""
    nvcc: str
    """The version of its nvcc, "" where it has none."""

    @property
    def is_fresh(self) -> bool:
        """Whether it was built from what this version would build it from."""
        return self.context == context_sha256()

    def labels(self, version: str) -> dict[str, str]:
        """Return the labels that say all this."""
        found = {
            "version": version,
            "context": self.context,
            "recipe": self.recipe,
            "python": self.python,
            "torch": self.torch,
            "cuda": self.cuda,
            "nvcc": self.nvcc,
        }
        return {f"{PREFIX}.{name}": value for name, value in found.items()}


def find(engine: Engine, tag: str) -> Image | None:
    """Return the image of this name, None where there is none that we built.

    Raises:
        SandboxError: the daemon does not say.
    """
    try:
        found = engine.api.inspect_image(tag)
    except ImageNotFound:
        return None
    except ERRORS as error:
        raise engine.explained(error) from error
    labels = found["Config"].get("Labels") or {}
    if f"{PREFIX}.context" not in labels:
        return None
    values = {
        name: labels.get(f"{PREFIX}.{name}", "") for name in ("context", "recipe", "python", "torch", "cuda", "nvcc")
    }
    return Image(id=found["Id"], **values)


def state(image: Image | None) -> Literal["missing", "stale", "ready"]:
    """Say whether an image can be used as it is."""
    if image is None:
        return "missing"
    return "ready" if image.is_fresh else "stale"


def context_files() -> dict[str, bytes]:
    """Return what the image is built from, without the packages."""
    files = {
        "Dockerfile": dockerfile().read_bytes(),
        "opt/run_command.py": run_command().read_bytes(),
        "opt/supervisor.py": SUPERVISOR.read_bytes(),
        "opt/sudo": SUDO.encode(),
        "opt/judge/__main__.py": judge_main().read_bytes(),
    }
    files |= {f"opt/judge/cuda_agent_judge/{name}": data for name, data in tree(judge_package()).items()}
    return files | {f"opt/judge/workspace/{name}": data for name, data in tree(workspace_template()).items()}


def context_sha256() -> str:
    """Return the digest over the names and contents of `context_files`."""
    whole = hashlib.sha256()
    for name, data in sorted(context_files().items()):
        whole.update(f"{name}\0{len(data)}\0".encode() + data)
    return whole.hexdigest()
