"""Builds that fail, hang, are killed or meet each other, and what is said of them."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from building import NUMBER, compiled, number, workspace

from cuda_agent_judge.build import BuildResult, build
from cuda_agent_judge.compiling import Job, parallel_jobs, run_all, shortened

JUDGE = Path(__file__).resolve().parents[3] / "sandbox_image"


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A template whose binding needs no torch, for tests of what is rebuilt."""
    return workspace(tmp_path / "template", {"binding.cpp": "int binding;\n", "binding_registry.h": "#define ONE 1\n"})


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


@pytest.mark.parametrize(
    "other", ['REGISTER_KERNEL(scale, "() -> ()");', "PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {}"]
)
def test_two_ways_of_registering_in_one_submission_are_refused(tmp_path: Path, bare: Path, other: str) -> None:
    files = {"kernels/a.cpp": "REGISTER_BINDING(scale, register_scale);\n", "kernels/b.cpp": other}
    result = build(workspace(tmp_path / "ws", files), tmp_path / "out", target="cpu", template=bare)
    assert not result.ok
    assert "use one of REGISTER_KERNEL, REGISTER_BINDING and PYBIND11_MODULE" in result.reason
    assert "kernels/a.cpp" in result.reason
    assert "kernels/b.cpp" in result.reason
