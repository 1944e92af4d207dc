"""The warm parent: what it forks, what it refuses to fork from, and that nothing outlives it."""

import subprocess
import sys
import textwrap
import time
from pathlib import Path

from judging import HOME, SCALE

from cuda_agent_judge import process_tree


def run(body: str) -> subprocess.CompletedProcess[str]:
    head = f"import os, sys, time; sys.path.insert(0, {str(HOME)!r})\n"
    head += "from cuda_agent_judge import processes, protocol\n"
    return subprocess.run(
        [sys.executable, "-I", "-c", head + textwrap.dedent(body)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


ROLES = """
def quiet(channel):
    try: channel.receive()
    except protocol.PeerLost: pass
def roles(judge=lambda ends: {"said": 1}, reference=quiet, candidate=quiet):
    return processes.Roles(judge, reference, candidate)
"""


def test_the_judges_answer_comes_back() -> None:
    done = run(ROLES + "print(processes.run_roles(roles(), 30))")
    assert done.stdout.strip() == "{'said': 1}", done.stderr


def test_a_parent_with_an_openmp_region_behind_it_does_not_fork() -> None:
    done = run(
        ROLES
        + "import torch; torch.set_num_threads(2); torch.rand(2000, 2000).relu()\nprocesses.run_roles(roles(), 30)"
    )
    assert "cannot fork safely" in done.stderr


def test_importing_the_whole_judge_leaves_the_parent_fit_to_fork() -> None:
    done = run(
        """
        from cuda_agent_judge import environment
        os.environ.update(environment.clean(dict(os.environ)))
        os.environ["OPENBLAS_NUM_THREADS"] = "1"
        import cuda_agent_judge.commands
        processes.check_untouched()
        import torch
        print(len(os.listdir("/proc/self/task")), torch.cuda.is_initialized())
        print("torch.utils.cpp_extension" in sys.modules)
        """
    )
    assert done.stdout.split() == ["1", "False", "False"], done.stderr


def test_a_judge_that_dies_is_the_judges_fault_and_nothing_stays(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    done = run(
        ROLES
        + f"""
def runaway(channel):
    if os.fork() == 0:
        os.setsid()
        if os.fork(): os._exit(0)
        open({str(note)!r}, "w").write(str(os.getpid()))
        time.sleep(1000)
    channel.receive()
def judge(ends):
    while not os.path.exists({str(note)!r}) or not open({str(note)!r}).read(): time.sleep(0.01)
    os._exit(0)
try: processes.run_roles(roles(judge=judge, candidate=runaway), 30)
except processes.JudgeFault as error: print(error)
"""
    )
    assert "without an answer" in done.stdout, done.stderr
    assert not Path("/proc", note.read_text()).exists()


def test_a_worker_has_its_own_channel_and_no_other_descriptor(tmp_path: Path) -> None:
    note = tmp_path / "fds"
    done = run(
        ROLES
        + f"""
kept = os.open("/dev/null", os.O_RDONLY)
os.set_inheritable(kept, True)
def look(channel):
    own = ["/proc/self/fd/" + n for n in os.listdir("/proc/self/fd")]
    links = [os.readlink(path) for path in own if os.path.lexists(path)]
    open({str(note)!r}, "w").write("\\n".join(links))
    channel.receive()
def judge(ends):
    while not os.path.exists({str(note)!r}): time.sleep(0.01)
    time.sleep(0.1)
    return {{}}
processes.run_roles(roles(judge=judge, candidate=look), 30)
"""
    )
    links = note.read_text().split("\n")
    assert sum(link.startswith("socket:") for link in links) == 1, (links, done.stderr)
    assert sum(link == "/dev/null" for link in links) == 1


def test_how_a_process_ended_is_said() -> None:
    done = run("print(processes.how_ended(11), '|', processes.how_ended(3 << 8))")
    assert done.stdout.strip() == "was killed by SIGSEGV | left with exit code 3"


def children(pid: int) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
            if parent == pid:
                found.add(int(entry.name))
    return found


def test_a_process_whose_first_thread_has_ended_is_there_until_the_last_has() -> None:
    body = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(100,), daemon=True).start()
print("up", flush=True)
ctypes.CDLL(None).syscall(60 if __import__("platform").machine() == "x86_64" else 93, 0)
"""
    with subprocess.Popen([sys.executable, "-I", "-c", body], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"up\n"
        while process_tree.state_of(process.pid) != b"Z":
            time.sleep(0.01)
        assert process_tree.is_running(process.pid)
        process_tree.end_process(process.pid, 60)
        assert not process_tree.is_running(process.pid)
        assert process_tree.state_of(process.pid) == b"Z"


def test_a_judge_that_is_told_to_end_takes_its_workers_along(tmp_path: Path) -> None:
    (tmp_path / "session" / "operator").mkdir(parents=True)
    (tmp_path / "session" / "operator" / "model.py").write_text(SCALE)
    (tmp_path / "session" / "session.json").write_text('{"libraries": "any"}')
    (tmp_path / "model_new.py").write_text("while True: pass\n")
    line = [
        sys.executable,
        "-I",
        str(HOME),
        "verify",
        "--session",
        str(tmp_path / "session"),
        "--workspace",
        str(tmp_path),
    ]
    with subprocess.Popen(line, stdout=subprocess.DEVNULL) as judge:
        while len(workers := children(judge.pid)) < 3:
            assert judge.poll() is None
            time.sleep(0.02)
        judge.terminate()
        assert judge.wait(60) == 128 + 15
    assert not [pid for pid in workers if Path("/proc", str(pid)).exists()]
