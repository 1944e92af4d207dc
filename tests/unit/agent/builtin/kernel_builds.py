"""Builds the kernels of many operators into one library, with the real compiler, and runs them against PyTorch.

Kernels for cuda are built for the host: `cuda_on_host.h` stands in for CUDA's language and runs each block's threads.
"""

import json
import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

from cuda_agent.llm.builtin.design import Design
from cuda_agent.llm.builtin.graph import read_graph
from cuda_agent.llm.builtin.recipes import choose

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[3]
WORKSPACE = ROOT / "sandbox_image" / "workspace"
GROUPS = 6
INCLUDES = ["cmath", "cstdint", "cstring", "memory", "type_traits", "immintrin.h"]
LAUNCH = re.compile(r"(\w+(?:<\d+>)?)<<<(.*), 0, stream>>>\((.*)\);")


def outcomes(python: str, module: str, folder: Path, target: str, shift: int = 0) -> dict[str, str]:
    """By operator of `module`: "" when its kernel is right, else what is wrong."""
    _sandbox(python, "trace", module, str(folder), target)
    graphs = json.loads((folder / "graphs.json").read_text())
    designs = {name: replace(choose(read_graph(graph)), name=f"k_{name}") for name, graph in graphs.items()}
    _write(designs, folder, target, shift)
    include = json.loads(
        _output([python, "-c", "import json, torch; print(json.dumps(torch.__path__[0] + '/include'))"])
    )
    _build(folder, include, target)
    said: dict[str, str] = json.loads(_sandbox(python, "run", module, str(folder)).splitlines()[-1])
    assert said.keys() == designs.keys()
    return said


def _sandbox(python: str, *arguments: str) -> str:
    path = os.pathsep.join(map(str, [ROOT / "sandbox_image", ROOT, HERE / "sandboxed"]))
    return _output([python, str(HERE / "sandboxed" / "harness.py"), *arguments], PYTHONPATH=path)


def _output(argv: list[str], **env: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, env={**os.environ, **env}, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def _write(designs: dict[str, Design], folder: Path, target: str, shift: int) -> None:
    """Every operator takes another of its recipe's variants, so that all of them are run."""
    kernels: list[str] = []
    bindings: list[str] = []
    for number, (name, design) in enumerate(designs.items(), start=shift):
        variants = list(design.variants().values())
        files = design.files(variants[number % len(variants)])
        (folder / f"{name}.py").write_text(files["model_new.py"])
        kernels.append(_kernel(files[design.kernel_path], number))
        bindings.append(_binding(files[f"kernels/{design.name}_binding.cpp"], number, target))
    head = (
        '#include "cuda_on_host.h"\n#include "cublaslt_on_host.h"\n'
        if target == "cuda"
        else "".join(f"#include <{name}>\n" for name in INCLUDES)
    )
    for group in range(GROUPS):
        (folder / f"kernels{group}.cpp").write_text(
            head + "#define FN static inline\n" + "\n".join(kernels[group::GROUPS])
        )
    registry = '#include "binding_registry.h"\nSTABLE_TORCH_LIBRARY(cuda_extension, m) {}\n'
    (folder / "bindings.cpp").write_text(registry + "\n".join(bindings))


def _kernel(text: str, number: int) -> str:
    text = text.replace("#if defined(__AVX__)\n#include <immintrin.h>\n#endif\n", "")
    text = re.sub(r"#(include|define FN).*", "", text)
    syncs = "true" if "__syncthreads" in text or "__shfl" in text else "false"

    def launch(match: re.Match[str]) -> str:
        kernel, shape, arguments = match.groups()
        return f"{{ const dim3 s[2] = {{{shape}}}; launch(s[0], s[1], [&] {{ {kernel}({arguments}); }}, {syncs}); }}"

    return f"namespace operator_{number} {{\n{LAUNCH.sub(launch, text)}\n}}"


def _binding(text: str, number: int, target: str) -> str:
    text = text.replace('#include "../binding_registry.h"', "").replace(" expect(", f" expect_{number}(")
    if target == "cuda":
        text = text.replace("cudaStream_t", "int").replace("check_launch", "(void)sizeof")
        text = re.sub(r"current_stream\(\w+\)", "0", text)
    return text


def _build(folder: Path, include: str, target: str) -> None:
    style = ["-O1", "-std=c++20"] if target == "cuda" else ["-O2", "-ftree-vectorize", "-march=native", "-std=c++17"]
    common = ["-fPIC", "-fopenmp", "-fno-math-errno", "-w", f"-I{HERE / 'sandboxed'}", f"-I{WORKSPACE}", f"-I{include}"]
    jobs = [(f"kernels{group}", style) for group in range(GROUPS)] + [("bindings", ["-O0", "-std=c++17"])]
    for name, flags in jobs:
        _output(["g++", *flags, *common, "-c", str(folder / f"{name}.cpp"), "-o", str(folder / f"{name}.o")])
    objects = [str(folder / f"{name}.o") for name, _ in jobs]
    libraries = [
        f"-L{Path(include).parent / 'lib'}",
        "-ltorch_cpu",
        "-ltorch",
        "-lc10",
        "-Wl,--unresolved-symbols=ignore-all",
    ]
    _output(["g++", "-shared", "-o", str(folder / "cuda_extension.so"), *objects, *libraries])
