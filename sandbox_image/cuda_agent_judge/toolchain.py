"""Compilers and their command lines. Imports no torch: where it is installed is enough."""

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cuda_agent_judge.gpu import asked_aside

Target = Literal["cpu", "cuda"]
Style = Literal["stable", "pybind", "none"]

# The letter "a" unlocks what exists on one generation only (wgmma, tcgen05).
_SPECIFIC = {"9.0": "90a", "10.0": "100a", "10.3": "103a", "12.0": "120a"}
_VENDOR = ("cublas", "cublasLt", "cudnn")
_VENDOR_HEADERS = ("cublasLt.h", "cudnn.h")
_CXX_FLAGS = ("-O3", "-march=native", "-std=c++17", "-fPIC", "-fopenmp", "-fno-math-errno", "-fmax-errors=20")


_PYBIND_DEFINES = ("-DTORCH_EXTENSION_NAME=cuda_extension", "-D_GLIBCXX_USE_CXX11_ABI=1", "-DCUDA_AGENT_PYBIND")


class ToolchainFault(Exception):
    """A compiler or a header is missing; the text is one sentence."""


@dataclass(frozen=True)
class Cuda:
    """nvcc, the folder it stands in and the architecture to build for, as nvcc writes it ("90a")."""

    nvcc: str
    home: Path
    arch: str


@dataclass(frozen=True)
class Toolchain:
    """What builds a submission."""

    cxx: str
    torch: Path
    """The folder of the torch package."""
    cuda: Cuda | None
    """Only on target cuda."""

    def compile_command(self, source: str, object_file: Path, depfile: Path, style: Style) -> list[str]:
        """The command that compiles one source, run in the folder of the sealed sources."""
        defines = list(_PYBIND_DEFINES) if style == "pybind" else []
        includes = ["-I.", *(word for folder in self._includes(style) for word in ("-isystem", str(folder)))]
        files = ["-MD", "-MF", str(depfile), "-c", source, "-o", str(object_file)]
        if self.cuda is None:
            return [self.cxx, *_CXX_FLAGS, *defines, *includes, *files]
        defines.append("-DCUDA_AGENT_TARGET_CUDA")
        if not source.endswith(".cu"):
            return [self.cxx, *_CXX_FLAGS, *defines, *includes, *files]
        arch = f"-gencode=arch=compute_{self.cuda.arch},code=sm_{self.cuda.arch}"
        flags = [
            "-O3",
            "-std=c++17",
            "-lineinfo",
            arch,
            "-Xptxas=-v",
            "-Xcompiler=-fPIC,-fopenmp",
            f"-ccbin={self.cxx}",
        ]
        if style == "pybind":
            flags += ["--expt-relaxed-constexpr", "--expt-extended-lambda", *(f"-U{name}" for name in _HALF_SWITCHES)]
        return [self.cuda.nvcc, *flags, *defines, *includes, *files]

    def link_command(self, objects: list[Path], library: Path, style: Style) -> list[str]:
        """The command that links the library; it warns of undefined names, `build` knows which are found at load."""
        lib = self.torch / "lib"
        names = ["torch", "torch_cpu", "c10"]
        if style == "pybind":
            names.append("torch_python")
        search = [f"-L{lib}"]
        if self.cuda is not None:
            names += [name for name in ("torch_cuda", "c10_cuda") if (lib / f"lib{name}.so").exists()]
            search.append(f"-L{self.cuda.home / 'lib64'}")
            names.append("cudart")
        # No -fopenmp: libgomp's symbols come from the runtime that torch has loaded, else there are two thread pools.
        flags = ["-shared", "-Wl,-z,defs", "-Wl,--warn-unresolved-symbols", "-Wl,--no-as-needed"]
        libraries = [*(f"-l{name}" for name in names), "-Wl,--as-needed", *self._vendor_libraries()]
        return [self.cxx, *map(str, objects), *flags, *search, *libraries, "-o", str(library)]

    def _vendor_libraries(self) -> list[str]:
        """What a submission may call where the toolkit or torch brings it along; loaded only by one that does.

        BLAS of target cpu is in libtorch_cpu, which every library is linked with.
        """
        if self.cuda is None:
            return []
        found = []
        for name in _VENDOR:
            if (self.cuda.home / f"lib64/lib{name}.so").exists():
                found.append(f"-l{name}")
            else:
                found += [str(path) for path in self._beside_torch(f"lib/lib{name}.so*")[:1]]
        return found

    def _beside_torch(self, pattern: str) -> list[Path]:
        """Files of the wheels by which pip installs CUDA."""
        return sorted(self.torch.parent.glob(f"nvidia/*/{pattern}"))

    def trusted_folders(self) -> list[Path]:
        """Folders whose headers do not change with the workspace."""
        folders = [*self._includes("pybind"), Path(self.cxx).resolve().parent.parent]
        return [folder.resolve() for folder in folders]

    def _includes(self, style: Style) -> list[Path]:
        folders = [self.torch / "include"]
        if style == "pybind":
            folders += [self.torch / "include/torch/csrc/api/include", Path(sysconfig.get_path("include"))]
        if self.cuda is not None:
            folders.append(self.cuda.home / "include")
            folders += [
                path.parent
                for name in _VENDOR_HEADERS
                if not (folders[-1] / name).exists()
                for path in self._beside_torch(f"include/{name}")
            ]
        return folders


_HALF_SWITCHES = (
    "__CUDA_NO_HALF_OPERATORS__",
    "__CUDA_NO_HALF_CONVERSIONS__",
    "__CUDA_NO_BFLOAT16_CONVERSIONS__",
    "__CUDA_NO_HALF2_OPERATORS__",
)


def find_toolchain(target: Target, style: Style, arch: str | None = None) -> Toolchain:
    """Find what a build needs; `arch` ("90a") is asked from the GPU when it is not given.

    Raises:
        ToolchainFault: something is missing.
    """
    cxx = shutil.which("g++")
    if cxx is None:
        raise ToolchainFault(
            "there is no g++ on PATH in the sandbox: install a C++ compiler (Debian: apt-get install g++)"
        )
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        raise ToolchainFault("the sandbox's Python has no torch: install torch 2.10 or newer there")
    torch = Path(next(iter(spec.submodule_search_locations)))
    if style == "pybind" and not (Path(sysconfig.get_path("include")) / "Python.h").exists():
        raise ToolchainFault(
            "REGISTER_BINDING and PYBIND11_MODULE need Python.h, which the sandbox's Python lacks: "
            "register with REGISTER_KERNEL (binding_registry.h), or install python3-dev"
        )
    return Toolchain(cxx, torch, _find_cuda(arch) if target == "cuda" else None)


def compilers(target: Target) -> list[Path]:
    """The compilers that are there."""
    found = [shutil.which("g++"), _find_nvcc() if target == "cuda" else None]
    return [Path(path) for path in found if path]


def build_environment(scratch: Path) -> dict[str, str]:
    """The environment of compilers: no NVCC_APPEND_FLAGS or CPATH of somebody else, and messages in English."""
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    return {"PATH": os.defpath, **kept, "LC_ALL": "C", "HOME": str(scratch), "TMPDIR": str(scratch)}


def compiler_versions(target: Target) -> str:
    """Name the compilers with their versions ("g++ 13.2.0, nvcc 13.0.48"); one that is missing is left out."""
    asked = [("g++", shutil.which("g++"), "-dumpfullversion", r"([\d.]+)")]
    if target == "cuda":
        asked.append(("nvcc", _find_nvcc(), "--version", r"release .*V([\d.]+)"))
    versions = [(name, _said(path, option, pattern)) for name, path, option, pattern in asked if path]
    return ", ".join(f"{name} {version}" for name, version in versions)


def host_compiler() -> str:
    """What torch.compile builds C++ with, and its version."""
    named = os.environ.get("CXX", "g++")
    found = shutil.which(named)
    return f"{named} {_said(found, '--version', '(.+)')}" if found else named


def _said(program: str, option: str, pattern: str) -> str:
    try:
        told = subprocess.run([program, option], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return "of an unknown version"
    found = re.search(pattern, told.stdout)
    return found[1] if found else "of an unknown version"


def _find_nvcc() -> str | None:
    named = [os.path.join(os.environ[name], "bin/nvcc") for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    return next(filter(None, (shutil.which(path) for path in [*named, "nvcc", "/usr/local/cuda/bin/nvcc"])), None)


def _find_cuda(arch: str | None) -> Cuda:
    found = _find_nvcc()
    if found is None:
        raise ToolchainFault(
            "there is no nvcc on PATH in the sandbox: install the CUDA toolkit or choose the cpu target"
        )
    return Cuda(found, _cuda_home(found), arch or gpu_arch())


def _cuda_home(nvcc: str) -> Path:
    beside = Path(nvcc).resolve().parent.parent
    if (beside / "include/cuda_runtime.h").exists():
        return beside
    # nvcc may be a wrapper script somewhere else: it knows its own top.
    told = subprocess.run([nvcc, "-dryrun", "-c", "x.cu"], capture_output=True, text=True, timeout=60, check=False)
    top = re.search(r"^#\$ TOP=(.+)$", told.stderr, re.MULTILINE)
    if top and (home := Path(top[1].strip()).resolve()) and (home / "include/cuda_runtime.h").exists():
        return home
    raise ToolchainFault(f"{nvcc} has no cuda_runtime.h beside it: install the whole CUDA toolkit, headers included")


def gpu_arch() -> str:
    """The architecture of the first visible GPU, as nvcc writes it.

    Raises:
        ToolchainFault: no GPU can be seen.
    """
    return _arch_of(os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0].strip(), os.environ.get("PATH", ""))


@functools.cache
def _arch_of(visible: str, path: str) -> str:
    """Ask nvidia-smi, as it is found on `path`, which takes half a second: once in a process and its children."""
    query = ["nvidia-smi", "--query-gpu=compute_cap", "--format=csv,noheader"]
    found = asked_aside(os.environ) or visible  # nvidia-smi has numbers of its own
    for command in ([*query, f"--id={found}"], query) if found else (query,):
        try:
            told = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if told.returncode == 0 and (capability := re.search(r"^\s*(\d+\.\d+)\s*$", told.stdout, re.MULTILINE)):
            return _SPECIFIC.get(capability[1], capability[1].replace(".", ""))
    raise ToolchainFault("no GPU can be seen (nvidia-smi names none): pass one to the sandbox or choose the cpu target")
