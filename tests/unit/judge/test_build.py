"""Builds with the real compilers: what is rebuilt, what is said of failures, and that builds do not meet."""

import importlib.util
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from cuda_agent_judge.build import BuildResult, build
from cuda_agent_judge.compiling import Job, parallel_jobs, run_all, shortened
from cuda_agent_judge.sources import SourceFault, read_submission, submission_sha256

JUDGE = Path(__file__).resolve().parents[3] / "sandbox_image"
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
NUMBER = 'extern "C" int number() { return %s; }\n'


def workspace(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A template whose binding needs no torch, for tests of what is rebuilt."""
    return workspace(tmp_path / "template", {"binding.cpp": "int binding;\n", "binding_registry.h": "#define ONE 1\n"})


def number(result: BuildResult) -> int:
    """Call number() of a library, in a process of its own (a loaded library stays)."""
    assert result.ok, result.log
    code = f"import ctypes; print(ctypes.CDLL({str(result.library)!r}).number())"
    # libtorch is a dependency of every library; python finds it only beside torch.
    environment = {**os.environ, "LD_LIBRARY_PATH": _torch_lib()}
    told = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    return int(told.stdout)


def _torch_lib() -> str:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return str(Path(spec.origin).parent / "lib")


def compiled(result: BuildResult) -> int:
    assert result.ok, result.log
    return int(result.log.split(": ", 1)[1].split(" compiled")[0])


def call_scale(result: BuildResult, style: str) -> str:
    load = {
        "stable": "torch.ops.load_library(path); module = torch.ops.cuda_extension",
        "pybind": "sys.path.insert(0, path.rpartition('/')[0]); import cuda_extension as module",
    }[style]
    code = (
        f"import sys, torch; path = {str(result.library)!r}; {load}; print(module.scale(torch.ones(3), 2.5).tolist())"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_a_stable_abi_submission_builds_and_runs(tmp_path: Path) -> None:
    ws = workspace(tmp_path / "w s", {"kernels/scale.cpp": PLAIN, "kernels/scale_binding.cpp": BINDING})
    result = build(ws, tmp_path / "ünï out", target="cpu")
    assert (result.ok, result.style, result.reason) == (True, "stable", ""), result.log
    assert call_scale(result, "stable") == "[2.5, 2.5, 2.5]"


def test_a_pybind_submission_builds_the_published_way(tmp_path: Path) -> None:
    source = """
    #include <torch/extension.h>
    torch::Tensor scale(torch::Tensor x, double factor) { return x * factor; }
    PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("scale", &scale); }
    """
    result = build(workspace(tmp_path / "ws", {"kernels/scale.cpp": source}), tmp_path / "out", target="cpu")
    assert (result.ok, result.style) == (True, "pybind"), result.log
    assert call_scale(result, "pybind") == "[2.5, 2.5, 2.5]"


def test_no_sources_are_nothing_to_build(tmp_path: Path) -> None:
    result = build(workspace(tmp_path, {"model_new.py": "", "kernels/README.md": ""}), tmp_path / "out", target="cpu")
    assert (result.ok, result.style, result.library) == (True, "none", None)


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


def test_the_error_is_shown_again_on_a_retry(tmp_path: Path, bare: Path) -> None:
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": "int x = unknown_name;\n", "kernels/b.cpp": NUMBER % "1"})
    results = [build(ws, tmp_path / "out", target="cpu", template=bare) for _ in range(2)]
    for result in results:
        assert not result.ok
        assert "kernels/a.cpp:1:9: error: 'unknown_name' was not declared" in result.reason
        assert result.log.startswith(result.reason)
    workspace(ws, {"kernels/a.cpp": "int x;\n"})
    assert compiled(build(ws, tmp_path / "out", target="cpu", template=bare)) == 1


def test_a_long_log_keeps_the_errors_at_its_head(tmp_path: Path, bare: Path) -> None:
    noise = "".join(f'#warning "{index} {"w" * 200}"\n' for index in range(300))
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": noise + "int x = unknown_name;\n" + noise})
    result = build(ws, tmp_path / "out", target="cpu", template=bare)
    assert "unknown_name" in result.log[:600]
    assert len(result.log) < 20_000


def test_a_function_that_nobody_defines_is_named(tmp_path: Path, bare: Path) -> None:
    source = "void launch(float* x);\nvoid use(float* x) { launch(x); }\n"
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": source, "kernels/b.cpp": 'extern "C" void launch(float* x) {}\n'})
    result = build(ws, tmp_path / "out", target="cpu", template=bare)
    assert not result.ok
    assert "launch(float*)" in result.reason
    assert "error: undefined reference" in result.log


def test_a_function_defined_twice_is_an_error(tmp_path: Path, bare: Path) -> None:
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": NUMBER % "1", "kernels/b.cpp": NUMBER % "2"})
    result = build(ws, tmp_path / "out", target="cpu", template=bare)
    assert not result.ok
    assert "multiple definition of" in result.reason


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


@pytest.fixture
def own_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A `g++` of the test's making, first on PATH."""
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return folder / "g++"


def fake(compiler: Path, script: str) -> None:
    compiler.write_text("#!/bin/sh\n" + textwrap.dedent(script))
    compiler.chmod(0o755)


def runs(pid: int) -> bool:
    """Whether a process is alive; an orphan may still wait to be reaped by whoever adopted it."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_timeout_ends_the_compiler_and_its_children(tmp_path: Path, bare: Path, own_compiler: Path) -> None:
    pids = tmp_path / "pids"
    fake(own_compiler, f"sleep 600 & echo $! >>'{pids}'\necho $$ >>'{pids}'\nwait\n")
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": NUMBER % "1"})
    result = build(ws, tmp_path / "out", target="cpu", template=bare, timeout_s=1)
    assert (result.ok, result.timed_out) == (False, True)
    assert "longer than 1 s" in result.reason
    started = [int(line) for line in pids.read_text().split()]
    assert len(started) >= 2
    deadline = time.monotonic() + 30
    while any(map(runs, started)):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    own_compiler.unlink()
    assert number(build(ws, tmp_path / "out", target="cpu", template=bare)) == 1


SAYINGS = {
    "killed": ("kill -9 $$", "ran out of memory"),
    "child killed": (
        "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
        "ran out of memory",
    ),
    "no memory": ("echo 'cc1plus: out of memory allocating 65536 bytes' >&2; exit 1", "ran out of memory"),
    "no processes": (
        "echo 'g++: fatal error: fork: Resource temporarily unavailable' >&2; exit 1",
        "no more processes",
    ),
    "disk full": ("echo 'fatal error: error writing to /x.s: No space left on device' >&2; exit 1", "the disk is full"),
    "silent": ("exit 1", "g++ ended with exit code 1"),
}


@pytest.mark.parametrize(("script", "said"), SAYINGS.values(), ids=SAYINGS.keys())
def test_limits_of_the_sandbox_are_told_from_errors(
    tmp_path: Path, bare: Path, own_compiler: Path, script: str, said: str
) -> None:
    fake(own_compiler, script)
    result = build(workspace(tmp_path / "ws", {"kernels/a.cpp": ""}), tmp_path / "out", target="cpu", template=bare)
    assert not result.ok
    assert said in result.reason
    assert "\n" not in result.reason


def test_a_missing_compiler_is_said_in_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = build(workspace(tmp_path / "ws", {"kernels/a.cpp": ""}), tmp_path / "out", target="cpu")
    assert "no g++ on PATH" in result.reason


def test_flags_of_the_environment_do_not_reach_the_compiler(
    tmp_path: Path, bare: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = workspace(tmp_path / "include", {"planted.h": "#define VALUE 2\n"})
    monkeypatch.setenv("CPLUS_INCLUDE_PATH", str(folder))
    source = "#if __has_include(<planted.h>)\n#include <planted.h>\n#else\n#define VALUE 1\n#endif\n" + NUMBER % "VALUE"
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": source})
    assert number(build(ws, tmp_path / "out", target="cpu", template=bare)) == 1


def test_two_builds_at_once_get_their_own(tmp_path: Path, bare: Path) -> None:
    spaces = [workspace(tmp_path / f"ws{value}", {"kernels/a.cpp": NUMBER % value}) for value in (111, 222, 333)]
    results: dict[int, BuildResult] = {}

    def one(index: int) -> None:
        results[index] = build(spaces[index], tmp_path / "out", target="cpu", template=bare)

    threads = [threading.Thread(target=one, args=(index,)) for index in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [number(results[index]) for index in range(3)] == [111, 222, 333]


def test_a_killed_build_does_not_hold_up_the_next(tmp_path: Path, bare: Path, own_compiler: Path) -> None:
    ready = tmp_path / "ready"
    os.mkfifo(ready)
    fake(own_compiler, f"echo $$ >'{ready}'\nexec sleep 600\n")
    ws = workspace(tmp_path / "ws", {"kernels/a.cpp": NUMBER % "1"})
    code = (
        f"import sys; sys.path.insert(0, {str(JUDGE)!r}); from pathlib import Path; from cuda_agent_judge.build import "
        f"build; build(Path({str(ws)!r}), Path({str(tmp_path / 'out')!r}), target='cpu', template=Path({str(bare)!r}))"
    )
    with subprocess.Popen([sys.executable, "-c", code], start_new_session=True) as process:
        compiler = int(ready.read_text().split()[0])
        process.kill()
    os.kill(compiler, signal.SIGKILL)
    own_compiler.unlink()
    result = build(ws, tmp_path / "out", target="cpu", template=bare, timeout_s=60)
    assert number(result) == 1


def test_a_command_s_output_is_bounded(tmp_path: Path) -> None:
    job = Job("flood", ("/bin/sh", "-c", "head -c 50000000 /dev/zero | tr '\\0' x; echo; echo error: last"))
    [done] = run_all([job], cwd=tmp_path, env=dict(os.environ), scratch=tmp_path, deadline=float("inf"))
    assert len(done.output) < 1_000_000
    assert done.output.rstrip().endswith("error: last")
    assert shortened(done.output).startswith("error: last")


def test_there_is_always_a_job(tmp_path: Path) -> None:
    assert 1 <= parallel_jobs() <= len(os.sched_getaffinity(0))
