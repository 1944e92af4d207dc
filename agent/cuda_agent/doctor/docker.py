"""Checks of the sandbox `docker`: the daemon, what it can limit, the NVIDIA toolkit, the image, what was left."""

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from cuda_agent.doctor.check import Check, absent, fine, problem
from cuda_agent.sandbox.docker import image as images
from cuda_agent.sandbox.docker import orphans
from cuda_agent.sandbox.docker.engine import Engine, connect
from cuda_agent.sandbox.docker.failures import INSTEAD
from cuda_agent.sandbox.docker.gpus import Gpu, listed
from cuda_agent_tools.sandbox import SandboxError

CONNECT_TIMEOUT_S = 10.0
LEAST_FREE_BYTES = 5 << 30
CLEAN = "`cuda-agent doctor --clean`"
LIMITS = {
    "MemoryLimit": "memory",
    "PidsLimit": "processes",
    "CpuCfsQuota": "processor time",
}
TOOLKIT = (
    "install nvidia-container-toolkit, then `sudo nvidia-ctk runtime configure --runtime=docker && sudo systemctl"
    " restart docker`"
)


def checks(environ: Mapping[str, str], tag: str, *, clean: bool = False) -> list[Check]:
    """Check what a run in the sandbox `docker` needs; with `clean`, what dead programs left is removed."""
    try:
        engine = connect(environ, timeout_s=CONNECT_TIMEOUT_S)
    except SandboxError as error:
        return [unreachable(str(error), wanted="DOCKER_HOST" in environ)]
    try:
        info = engine.info()
        image = images.find(engine, tag)
        gpus = listed() if engine.host.startswith("unix://") else []
        found = [daemon(info, engine.host), *limits(info), *toolkit(info, gpus), *room(info, engine.host)]
        return [*found, *image_checks(image, tag, gpus), leftovers(engine, clean=clean)]
    except SandboxError as error:
        return [problem("docker", str(error), "mend what it says")]
    finally:
        engine.close()


def unreachable(message: str, *, wanted: bool) -> Check:
    """Say why there is no daemon: a problem where one is `wanted`, else runs use the sandbox local."""
    sentence, _, remedy = message.rpartition(": ")
    remedy = remedy.removesuffix(f", {INSTEAD}.")
    if "not installed" in message:
        return absent("docker", message)
    if not wanted:
        return absent("docker", f"{sentence or message}: runs use the sandbox local", remedy)
    return problem("docker", sentence or message, remedy)


def daemon(info: Mapping[str, Any], host: str) -> Check:
    """Say which daemon answers."""
    rootless = ", rootless" if any("rootless" in str(one) for one in info.get("SecurityOptions") or []) else ""
    return fine("docker", f"{info.get('ServerVersion')} at {host}{rootless}, cgroups {info.get('CgroupVersion', '1')}")


def limits(info: Mapping[str, Any]) -> list[Check]:
    """Say what the daemon cannot limit on its machine."""
    missing = [words for name, words in LIMITS.items() if info.get(name) is False]
    if not missing:
        return []
    return [
        problem(
            "limits",
            f"this Docker cannot limit {', '.join(missing)}",
            "use cgroups version 2 (boot with systemd.unified_cgroup_hierarchy=1); rootless Docker also needs the"
            " controllers delegated (docs.docker.com/engine/security/rootless)",
        )
    ]


def toolkit(info: Mapping[str, Any], gpus: list[Gpu]) -> list[Check]:
    """Say whether a GPU of this machine can be handed to a container."""
    if not gpus:
        return []
    described = [device for device in info.get("DiscoveredDevices") or [] if "nvidia.com/gpu" in str(device)]
    if "nvidia" in (info.get("Runtimes") or {}) or described:
        return [fine("nvidia toolkit", "registered")]
    return [problem("nvidia toolkit", "Docker does not know the NVIDIA Container Toolkit", TOOLKIT)]


def room(info: Mapping[str, Any], host: str) -> list[Check]:
    """Say how much room a daemon of this machine has for images."""
    root = Path(str(info.get("DockerRootDir", "")))
    if not host.startswith("unix://"):
        return []
    try:
        free = shutil.disk_usage(root).free
    except OSError:  # a daemon in a virtual machine, or a folder that only root may look into
        return []
    said = f"{free / 1e9:.1f} GB free in {root}"
    if free < LEAST_FREE_BYTES:
        return [problem("docker's disk", said, "free some space with `docker system prune`")]
    return [fine("docker's disk", said)]


def image_checks(image: images.Image | None, tag: str, gpus: list[Gpu]) -> list[Check]:
    """Say whether the image is there, of this version, and fits the machine's GPU."""
    if image is None:
        return [absent("image", f"{tag} is not there: runs use the sandbox local", images.BUILD)]
    about = f"{tag}: Python {image.python}, torch {image.torch}, nvcc {image.nvcc or 'none'}"
    if not image.is_fresh:
        return [problem("image", f"{about}; it was built by another version", images.BUILD)]
    if gpus and not (image.cuda and image.nvcc):
        return [problem("image", f"{about}; there is a GPU, and the image is for the CPU", images.BUILD)]
    if image.cuda and image.nvcc and image.cuda.split(".")[0] != image.nvcc.split(".")[0]:
        remedy = f"{images.BUILD} with a --base of CUDA {image.cuda}"
        return [problem("image", f"{about}; its torch is for CUDA {image.cuda}", remedy)]
    return [fine("image", about)]


def leftovers(engine: Engine, *, clean: bool) -> Check:
    """Say which containers of dead programs there are, or remove them."""
    if clean:
        removed = orphans.remove(engine)
        return fine("leftovers", f"removed: {', '.join(removed)}" if removed else "there was nothing to remove")
    found = orphans.find(engine)
    if found:
        return problem("leftovers", f"containers of programs that are gone: {', '.join(found)}", CLEAN)
    return fine("leftovers", "none")
