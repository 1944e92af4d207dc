"""The sandbox `docker` for a run: whether it can be had, and the container from its start to its removal."""

import os
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal

from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError
from cuda_agent.files import DiskError
from cuda_agent.judging import serve_command
from cuda_agent.runs.place import Place, chosen_lines
from cuda_agent.sandbox.cache import volume
from cuda_agent.sandbox.docker import orphans
from cuda_agent.sandbox.docker.container import Container, Spec
from cuda_agent.sandbox.docker.copying import copy_workspace
from cuda_agent.sandbox.docker.engine import TIMEOUT_S, connect
from cuda_agent.sandbox.docker.image import BUILD, Image, find, state
from cuda_agent.sandbox.docker.layout import JUDGE_HOME, JUDGE_SOCKET, MODEL, PYTHON, TRUSTED, WORKSPACE, Limits
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent.sandbox.gpus import Gpu, chosen, listed
from cuda_agent.sandbox.locks import PLACES, Locks, find_locks
from cuda_agent.sandbox.service import SOCKET_VARIABLE, JudgeService
from cuda_agent_tools.sandbox import SandboxError, SandboxLost

SHORT_TIMEOUT_S = 5.0
"""For a daemon that nobody asked for by name."""
MEMORY_SHARE = 0.75
"""Of the machine's memory, for the container; files in it count too."""


def choose_docker(settings: Settings, *, asked: bool) -> Place | str:
    """Return the place, or (where it was not asked for) a few words on why it is not taken.

    Nothing is built or pulled.

    Raises:
        ConfigError: it was asked for, and image or target are not there.
        SandboxError: it was asked for, and no daemon can be used.
    """
    if settings.python is not None:
        raise ConfigError("--python names an interpreter of this machine; leave it out with --sandbox docker.")
    try:
        with closing(connect(os.environ, timeout_s=TIMEOUT_S if asked else SHORT_TIMEOUT_S)) as engine:
            image = find(engine, settings.image)
            on_this_machine = engine.host.startswith("unix://")
    except SandboxError:
        if asked:
            raise
        return ""
    there = state(image)
    if image is not None and there == "ready":
        if not on_this_machine:
            return place_in(image, None, settings, Locks(str(PLACES[0])), asked=asked, cache=volume(os.environ))
        gpu = None if settings.target == "cpu" else chosen(listed(), os.environ, settings.gpu)
        return place_in(image, gpu, settings, find_locks(os.environ), asked=asked, cache=volume(os.environ))
    if asked:
        problem = "is not there" if there == "missing" else "was built by another version"
        raise ConfigError(f"The image {settings.image!r} of the sandbox {problem}: run {BUILD}.")
    return "" if there == "missing" else f" (not docker: its image is of another version; {BUILD})"


def place_in(
    image: Image, gpu: Gpu | None, settings: Settings, locks: Locks, *, asked: bool, cache: str = ""
) -> Place | str:
    """Return the place that an image makes with this GPU, or why it is none where nobody asked for it.

    `cache` is the volume of what the machine's judges keep.

    Raises:
        ConfigError: it was asked for, and the target is not there.
    """
    missing = _missing_for_cuda(image, gpu)
    if settings.target == "cuda" and missing and not asked:
        return f" (not docker: {missing})"
    if settings.target == "cuda" and missing:
        raise ConfigError(f"The target cuda is not ready: {missing}; use --target cpu or change that.")
    cuda = settings.target == "cuda" or (settings.target == "auto" and not missing)
    why = f"{gpu.name} and nvcc {image.nvcc}" if cuda and gpu else missing if settings.target == "auto" else "asked for"
    name: Literal["cpu", "cuda"] = "cuda" if cuda else "cpu"
    sandbox = f"sandbox docker: image {settings.image}, Python {image.python} with torch {image.torch}, no network"
    return Place(
        "docker",
        PYTHON,
        name,
        False,
        chosen_lines(sandbox, f"target {name}: {why}", gpu if cuda else None, locks.note),
        image=image.id,
        gpu=gpu.uuid if cuda and gpu else "",
        locks=locks.path,
        cache=cache,
        judge_home=JUDGE_HOME,
    )


def _missing_for_cuda(image: Image, gpu: Gpu | None) -> str:
    if gpu is None:
        return "nvidia-smi lists no GPU that may be used"
    if not image.cuda:
        return "the image's torch is for the CPU"
    return "" if image.nvcc else "the image has no nvcc"


def limits(info: dict[str, Any]) -> Limits:
    """Return what a container may use on a machine that its daemon describes so."""
    # A daemon that cannot limit the processors refuses to be asked for it; memory and processes it only ignores.
    cpus = float(info["NCPU"]) if info.get("CpuCfsQuota", True) else 0.0
    return Limits(memory_bytes=int(info["MemTotal"] * MEMORY_SHARE), cpus=cpus)


def judge_service(trusted: DockerSandbox) -> JudgeService:
    """Return what serves the judge in a container, which is not started yet."""
    command = serve_command(PYTHON, JUDGE_HOME, trusted.state_dir, WORKSPACE)
    return JudgeService(trusted, command, JUDGE_SOCKET)


@contextmanager
def entered(place: Place, *, workspace: Path) -> Iterator[tuple[DockerSandbox, DockerSandbox, JudgeService]]:
    """Start the container: the model's view of it, root's, and the judge's service, which is not started yet.

    At the end the workspace is copied to `workspace` and the container removed; those of dead programs are, before.

    Raises:
        SandboxError: it could not be started.
        DiskError: there was no room for the workspace at the end.
    """
    engine = connect(os.environ)
    try:
        orphans.remove(engine)
        gpus = (place.gpu,) if place.gpu else ()
        spec = Spec(
            place.image,
            limits(engine.info()),
            run=workspace.parent.name,
            gpus=gpus,
            locks=place.locks,
            cache=place.cache,
        )
        container = Container(engine, spec)
        cuda = place.target == "cuda"
        model = DockerSandbox(container, MODEL, cuda=cuda, extra_env={SOCKET_VARIABLE: JUDGE_SOCKET})
        trusted = DockerSandbox(container, TRUSTED, cuda=cuda)
        container.start()
        try:
            yield model, trusted, judge_service(trusted)
        except BaseException:
            with suppress(SandboxError, DiskError):  # what went wrong first is what the person must hear of
                copy_workspace(model, workspace)
            raise
        else:
            with suppress(SandboxLost):
                copy_workspace(model, workspace)
        finally:
            container.stop()
    finally:
        engine.close()
