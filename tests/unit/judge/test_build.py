"""Builds with the real compilers: what is built, what is rebuilt and what is refused."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from building import NUMBER, compiled, number, workspace

from cuda_agent_judge.build import BuildResult, build
from cuda_agent_judge.sources import SourceFault, read_submission, submission_sha256

PLAIN = """
#include <cstdint>
extern "C" void launch_scale(const float* x, float* y, int64_t n, float f) {
#pragma omp parallel for simd
  for (int64_t i = 0; i < n; ++i) y[i] = f * x[i];
}
"""
BINDING = """
#include "../binding_registry.h"
extern "C" void launch_scale(const float* x, float* y, int64_t n, float f);
Tensor scale(const Tensor& x, double factor) {
  CHECK(x.scalar_type() == ScalarType::Float, "x must be float32");
  Tensor y = empty_like(x);
  launch_scale(in<float>(x), out<float>(y), x.numel(), static_cast<float>(factor));
  return y;
}
REGISTER_KERNEL(scale, "(Tensor x, float factor) -> Tensor");
"""


# Without torch's headers a source compiles in a few hundredths of a second.
@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A template whose binding needs no torch, for tests of what is rebuilt."""
    return workspace(tmp_path / "template", {"binding.cpp": "int binding;\n", "binding_registry.h": "#define ONE 1\n"})


def call_scale(result: BuildResult, style: str) -> str:
    load = {
        "stable": "torch.ops.load_library(path); module = torch.ops.cuda_extension",
        "pybind": "sys.path.insert(0, path.rpartition('/')[0]); import cuda_extension as module",
    }[style]
    code = (
        f"import sys, torch; path = {str(result.extension)!r}; {load}; print(module.scale(torch.ones(3), 2.5).tolist())"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_stable_abi_submission_builds_and_runs(tmp_path: Path) -> None:
    ws = workspace(tmp_path / "w s", {"kernels/scale.cpp": PLAIN, "kernels/scale_binding.cpp": BINDING})
    result = build(ws, tmp_path / "ünï out", target="cpu")
    assert (result.ok, result.style, result.reason) == (True, "stable", ""), result.log
    assert call_scale(result, "stable") == "[2.5, 2.5, 2.5]"


MODULE = """
#include <torch/types.h>
#include <torch/csrc/utils/pybind.h>
torch::Tensor scale(torch::Tensor x, double factor) { return x * factor; }
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale); }
"""


def test_a_pybind_module_of_its_own_builds_and_runs(tmp_path: Path) -> None:
    result = build(workspace(tmp_path / "ws", {"kernels/scale.cpp": MODULE}), tmp_path / "out", target="cpu")
    assert (result.ok, result.style) == (True, "pybind"), result.log
    assert call_scale(result, "pybind") == "[2.5, 2.5, 2.5]"


def test_no_sources_are_nothing_to_build(tmp_path: Path) -> None:
    result = build(workspace(tmp_path, {"model_new.py": "", "kernels/README.md": ""}), tmp_path / "out", target="cpu")
    assert (result.ok, result.style, result.extension) == (True, "none", None)


def test_only_what_changed_is_compiled_again(tmp_path: Path, bare: Path) -> None:
    files = {
        "kernels/a.cpp": '#include "v.h"\n' + NUMBER % "VALUE",
        "kernels/b.cpp": "int b;\n",
        "kernels/v.h": "#define VALUE 1\n",
    }
    ws, out = workspace(tmp_path / "ws", files), tmp_path / "out"

    def again() -> BuildResult:
        return build(ws, out, target="cpu", template=bare)

    first = again()
    assert (compiled(first), number(first)) == (3, 1)
    assert compiled(again()) == 0
    workspace(ws, {"kernels/v.h": "#define VALUE 2\n"})
    second = again()
    assert (compiled(second), number(second)) == (1, 2)
    # A library that was handed out stays what it was.
    assert number(first) == 1
    workspace(ws, {"kernels/b.cpp": "int b, c;\n"})
    assert compiled(again()) == 1
    (ws / "kernels/b.cpp").unlink()
    assert (compiled(again()), number(again())) == (0, 2)


def test_the_same_size_and_time_with_other_content_is_compiled_again(tmp_path: Path, bare: Path) -> None:
    ws, out = workspace(tmp_path / "ws", {"kernels/a.cpp": NUMBER % "1"}), tmp_path / "out"
    assert number(build(ws, out, target="cpu", template=bare)) == 1
    source = ws / "kernels/a.cpp"
    before = source.stat()
    source.write_text(NUMBER % "2")
    os.utime(source, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert number(build(ws, out, target="cpu", template=bare)) == 2


def test_a_new_header_that_hides_another_is_seen(tmp_path: Path, bare: Path) -> None:
    source = '#if __has_include("own.h")\n#include "own.h"\n#else\n#define VALUE 1\n#endif\n' + NUMBER % "VALUE"
    ws, out = workspace(tmp_path / "ws", {"kernels/a.cpp": source}), tmp_path / "out"
    assert number(build(ws, out, target="cpu", template=bare)) == 1
    workspace(ws, {"kernels/own.h": "#define VALUE 2\n"})
    assert number(build(ws, out, target="cpu", template=bare)) == 2


def test_a_damaged_object_file_is_made_again(tmp_path: Path, bare: Path) -> None:
    ws, out = workspace(tmp_path / "ws", {"kernels/a.cpp": NUMBER % "1"}), tmp_path / "out"
    build(ws, out, target="cpu", template=bare)
    (out / "objects/kernels__a.cpp.o").write_bytes(b"half")
    assert compiled(build(ws, out, target="cpu", template=bare)) == 1


def test_a_clean_build_compiles_everything(tmp_path: Path, bare: Path) -> None:
    ws, out = workspace(tmp_path / "ws", {"kernels/a.cpp": NUMBER % "1"}), tmp_path / "out"
    build(ws, out, target="cpu", template=bare)
    assert compiled(build(ws, out, target="cpu", template=bare, clean=True)) == 2


def test_old_libraries_do_not_pile_up(tmp_path: Path, bare: Path) -> None:
    for value in range(7):
        ws = workspace(tmp_path / "ws", {"kernels/a.cpp": NUMBER % value})
        result = build(ws, tmp_path / "out", target="cpu", template=bare)
    assert len(list((tmp_path / "out/lib").glob("*/cuda_extension.so"))) == 4
    assert number(result) == 6


REFUSED = {
    "cuda on cpu": (
        {"kernels/a.cu": ""},
        "kernels/a.cu is CUDA, but the target is cpu: write it in C++ as kernels/a.cpp",
    ),
    "other ending": ({"kernels/a.cc": ""}, "name it .cpp"),
    "module name": ({"kernels/a.cpp": "PYBIND11_MODULE(mine, m) {}"}, "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m)"),
    "too large": ({"kernels/a.cpp": "\n" * (33 << 20)}, "more than 32 MiB"),
}


@pytest.mark.parametrize(("files", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_cannot_be_built_gets_a_sentence(tmp_path: Path, files: dict[str, str], said: str) -> None:
    result = build(workspace(tmp_path / "ws", files), tmp_path / "out", target="cpu")
    assert not result.ok
    assert said in result.reason


def test_a_commented_module_is_not_a_module(tmp_path: Path, bare: Path) -> None:
    ws = workspace(
        tmp_path / "ws", {"kernels/a.cpp": "// PYBIND11_MODULE(x, m)\n/* PYBIND11_MODULE(y, m) */\n" + NUMBER % "1"}
    )
    assert build(ws, tmp_path / "out", target="cpu", template=bare).style == "stable"


def test_links_out_of_the_workspace_are_refused(tmp_path: Path) -> None:
    secret = workspace(tmp_path, {"secret.cpp": "int secret;\n"}) / "secret.cpp"
    for index, link in enumerate(("kernels/a.cpp", "kernels/sub", "kernels", "model_new.py")):
        ws = workspace(tmp_path / f"ws{index}", {"README": ""})
        (ws / link).parent.mkdir(exist_ok=True)
        (ws / link).symlink_to(secret)
        with pytest.raises(SourceFault):
            read_submission(ws)
        if link != "model_new.py":
            assert not build(ws, tmp_path / "out", target="cpu").ok


def test_a_pipe_among_the_sources_does_not_hang(tmp_path: Path) -> None:
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": ""})
    os.mkfifo(ws / "kernels/b.cpp")
    assert "kernels/b.cpp is no plain file" in build(ws, tmp_path / "out", target="cpu").reason


def test_a_header_outside_the_submission_is_refused(tmp_path: Path, bare: Path) -> None:
    outside = workspace(tmp_path / "elsewhere", {"v.h": "#define VALUE 1\n"}) / "v.h"
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": f'#include "{outside}"\n' + NUMBER % "VALUE"})
    result = build(ws, tmp_path / "out", target="cpu", template=bare)
    assert not result.ok
    assert str(outside) in result.reason


def test_the_binding_is_the_template_s_own(tmp_path: Path, bare: Path) -> None:
    files = {
        "binding.cpp": "#error not this one\n",
        "kernels/a.cpp": '#include "../binding_registry.h"\n' + NUMBER % "ONE",
    }
    ws = workspace(tmp_path / "ws", {**files, "binding_registry.h": "#define ONE 2\n"})
    result = build(ws, tmp_path / "out", target="cpu", template=bare)
    assert number(result) == 1
    assert result.log.startswith("note: binding.cpp in the workspace is not read")


def test_the_hash_covers_names_and_bytes_of_the_submission(tmp_path: Path) -> None:
    files = {"model_new.py": "a", "kernels/a.cpp": "b", "kernels/sub/c.h": "c"}
    ws = workspace(tmp_path / "ws", files)
    hashes = {submission_sha256(ws)}
    workspace(ws, {"notes.md": "x", "kernels/.hidden": "x", "kernels/__pycache__/x.pyc": "x"})
    assert submission_sha256(ws) in hashes
    for name in files:
        workspace(ws, {name: "changed"})
        hashes.add(submission_sha256(ws))
    (ws / "kernels/a.cpp").rename(ws / "kernels/d.cpp")
    hashes.add(submission_sha256(ws))
    assert len(hashes) == 5


def test_an_empty_workspace_has_no_hash(tmp_path: Path) -> None:
    assert submission_sha256(tmp_path) == ""
