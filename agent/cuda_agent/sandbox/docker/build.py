"""Builds the sandbox's image: packages are downloaded on the host, so the build needs no index of them."""

import collections
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from cuda_agent import __version__
from cuda_agent.sandbox.docker.container import Container, Spec
from cuda_agent.sandbox.docker.engine import ERRORS, Engine
from cuda_agent.sandbox.docker.image import Image, Recipe, context_files, context_sha256, find
from cuda_agent.sandbox.docker.layout import GIB, MODEL, PYTHON, Limits
from cuda_agent.sandbox.docker.sandbox import DockerSandbox
from cuda_agent_tools.sandbox import SandboxError

PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
BUILD_TIMEOUT_S = 3600.0
PROBE_TIMEOUT_S = 180.0
PROBE = """
import json, re, shutil, subprocess, sys
import torch
subprocess.run(["g++", "-x", "c++", "-std=c++17", "-fsyntax-only", "-"], input=b"#include <vector>", check=True)
nvcc = subprocess.run(["nvcc", "--version"], capture_output=True, text=True).stdout if shutil.which("nvcc") else ""
found = re.search(r"release ([0-9.]+)", nvcc)
print(json.dumps({"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda or "",
                  "nvcc": found[1] if found else ""}))
"""
PROGRAMS = ("opt/sudo",)
Say = Callable[[str], None]
"""Takes a line for the person who waits."""


def build(
    engine: Engine, tag: str, recipe: Recipe, *, wheels: Path | None = None, network: str | None = None, say: Say
) -> tuple[Image, bool]:
    """Build the image where it is missing, was built by another version, or was asked for with another recipe.

    `wheels` is a folder that holds the packages already. Returns the image, and whether anything was built.

    Raises:
        SandboxError: it could not be built; an image of that name that was there before is still there.
    """
    before = find(engine, tag)
    if before is not None and before.is_fresh and before.recipe == recipe.sha256:
        return before, False
    with tempfile.TemporaryDirectory(prefix="cuda-agent-image-") as folder:
        packages = wheels or download(recipe, Path(folder) / "wheels", say=say, machine=_machine(engine))
        with tempfile.TemporaryFile(dir=folder) as context:
            _write_context(context, packages)
            say(f"building {tag} on {recipe.base} ...")
            made = _build(engine, context, {"BASE_IMAGE": recipe.base, "TORCH": recipe.torch}, network, say)
    image = _probed(engine, made, recipe)
    _label(engine, image, tag)
    if before is not None:
        with suppress(*ERRORS):
            engine.api.remove_image(before.id)
    return image, True


def download(recipe: Recipe, folder: Path, *, say: Say, machine: str) -> Path:
    """Download the packages for the image's Python with the host's pip and its settings, and return where they are.

    Raises:
        SandboxError: pip failed.
    """
    say(f"downloading {recipe.torch} for Python {recipe.python} (the CUDA build is about 3 GB) ...")
    platforms = [word for name in PLATFORMS for word in ("--platform", f"{name}_{machine}")]
    target = ["--only-binary=:all:", "--implementation", "cp", "--python-version", recipe.python, *platforms]
    argv = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--dest", str(folder)]
    done = subprocess.run(
        [*argv, *target, recipe.torch, "numpy", "pip"], capture_output=True, text=True, stdin=subprocess.DEVNULL
    )
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "ERROR" in line] or done.stderr.splitlines()
        raise SandboxError(
            f"The image's packages cannot be downloaded ({' '.join(lines[-1:])}): see whether pip reaches its index and"
            f" has {recipe.torch} for Python {recipe.python} (--torch, --python-version), or fill a folder yourself and"
            " name it with --wheels."
        )
    return folder


def _machine(engine: Engine) -> str:
    machine: str = engine.info().get("Architecture", "x86_64")
    return {"amd64": "x86_64", "arm64": "aarch64"}.get(machine, machine)


def _write_context(file: IO[bytes], wheels: Path) -> None:
    packages = sorted(wheels.glob("*.whl"))
    if not any(one.name.startswith("pip-") for one in packages):
        raise SandboxError(f"The folder {str(wheels)!r} has no wheel of pip: put those of torch, numpy and pip there.")
    with tarfile.open(fileobj=file, mode="w|") as context:
        for name, data in sorted(context_files().items()):
            about = tarfile.TarInfo(name)
            about.size, about.mode = len(data), 0o755 if name in PROGRAMS else 0o644
            context.addfile(about, io.BytesIO(data))
        for one in packages:
            with one.open("rb") as wheel:
                about = tarfile.TarInfo(f"wheels/{one.name}")
                about.size, about.mode = one.stat().st_size, 0o644
                context.addfile(about, wheel)
    file.seek(0)


def _build(
    engine: Engine,
    context: IO[bytes],
    arguments: Mapping[str, str],
    network: str | None,
    say: Say,
    tag: str | None = None,
) -> str:
    """Have the daemon build and return the image's id."""
    made, fault, said = "", "", collections.deque[str](maxlen=20)
    try:
        lines = engine.api.build(
            fileobj=context,
            custom_context=True,
            decode=True,
            rm=True,
            forcerm=True,
            buildargs=dict(arguments),
            network_mode=network,
            tag=tag,
            timeout=BUILD_TIMEOUT_S,
        )
        for line in lines:
            # Read to its end in any case: the connection is given back only then.
            fault = str(line.get("error", "")) or fault
            made = (line.get("aux") or {}).get("ID", made)
            said.append(_shown(line, say))
    except ERRORS as error:
        raise engine.explained(error) from error
    if fault or not made:
        raise SandboxError(_failed(fault or "Docker did not say which image it built", "\n".join(said)))
    return made


def _shown(line: Mapping[str, Any], say: Say) -> str:
    text = str(line.get("stream", "")).strip()
    if text.startswith("Step "):
        say(f"  {text.splitlines()[0][:100]}")
    return "" if text.startswith("Removing intermediate") else text


def _failed(error: str, last: str) -> str:
    known = ""
    if re.search(r"pull access denied|manifest|registry|not found: |dial tcp|no such host", error):
        known = "the base cannot be had; name one that is there with --base; "
    elif "no space left on device" in error + last:
        known = "the disk is full; free some space with `docker system prune`; "
    elif "not a supported wheel" in last or "No matching distribution" in last:
        known = "the packages do not fit the base's Python; name its version with --python-version; "
    elif "Temporary failure resolving" in last or "Could not resolve" in last or "Unable to fetch" in last:
        known = "the build reaches no network; try --network host; "
    said = " ".join(last.split())[-300:]
    return f"The image could not be built: {known}{' '.join(error.split())[:300]} (it said last: {said})."


def _probed(engine: Engine, image_id: str, recipe: Recipe) -> Image:
    """Run what the judge needs in the new image as the model's user, under the walls of a run."""
    container = Container(engine, Spec(image_id, Limits(memory_bytes=4 * GIB, cpus=1.0), run="image build"))
    container.start()
    try:
        sandbox = DockerSandbox(container, MODEL)
        result = sandbox.exec([PYTHON, "-I", "-c", PROBE], timeout_s=PROBE_TIMEOUT_S)
    except FileNotFoundError as error:
        raise SandboxError(f"The image that was built has no {error.filename}; use another base.") from error
    finally:
        container.stop()
    try:
        found = json.loads(result.stdout)
    except ValueError as error:
        said = result.stderr.decode(errors="replace").strip()[-300:]
        raise SandboxError(f"The image that was built does not work: {said}") from error
    return replace(Image(image_id, context_sha256(), recipe.sha256, "", "", "", ""), **found)


def _label(engine: Engine, image: Image, tag: str) -> None:
    """Give the image its name and labels; only now does the name move from an older one."""
    labels = " ".join(f'{name}="{value}"' for name, value in image.labels(__version__).items())
    data = f"FROM {image.id}\nLABEL {labels}\n".encode()
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w|") as tar:
            about = tarfile.TarInfo("Dockerfile")
            about.size = len(data)
            tar.addfile(about, io.BytesIO(data))
        context.seek(0)
        _build(engine, context, {}, None, lambda text: None, tag)


def lines(image: Image) -> Iterator[str]:
    """Yield what a person wants to know of an image."""
    yield f"Python {image.python}, torch {image.torch}"
    yield f"CUDA {image.cuda or 'none (torch for the CPU)'}, nvcc {image.nvcc or 'none'}"
