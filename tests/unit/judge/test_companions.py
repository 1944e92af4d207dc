"""A submission computes in the one process that it is given: what it starts may have no GPU open while it is timed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from judging import HOME, Judge
from suite.devices import helped

PROGRAM = """
import ctypes, json, mmap, os, sys, threading, time
sys.path.insert(0, sys.argv[1])
from cuda_agent_judge import companions, processes, protocol
from cuda_agent_judge.workers import Refused
gpu, folder = sys.argv[2], sys.argv[3]

def wait_for(name):
    while not os.path.exists(f"{folder}/{name}"): time.sleep(0.005)
def mark(name):
    open(f"{folder}/{name}", "w").close()
def child(what):
    if os.fork(): return
    what()
    os._exit(0)
def opens(name):
    held = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_CREAT)
    mark("ready")
    time.sleep(600)
def lose_a_right(number):
    header, sets = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capget(header, sets) == 0
    sets[0] &= ~(1 << number)
    assert ctypes.CDLL(None).capset(header, sets) == 0
def quiet(channel):
    try: channel.receive()
    except protocol.PeerLost: pass

def has_a_gpu():
    child(lambda: opens("nvidia1"))
def has_a_file():
    child(lambda: opens("plain"))
def has_an_orphan():
    def orphan():
        os.setsid()
        child(lambda: opens("nvidia1"))
    child(orphan)
def has_one_that_ended():
    def opened():
        os.open(f"{folder}/nvidia1", os.O_RDONLY | os.O_CREAT)
    child(opened)
    os.wait()
    mark("ready")
def has_a_hidden_one():
    def hides():
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        opens("nvidia1")
    child(hides)
def has_one_that_cannot_be_seen():
    def leaves():
        held = os.open(f"{folder}/nvidia1", os.O_RDONLY | os.O_CREAT)
        os.setresuid(65534, 65534, 65534)
        opened()
    def opened():
        os.write(ready, b"1")
        time.sleep(600)
    seen, ready = os.pipe()
    child(leaves)
    os.read(seen, 1)
    mark("ready")
def has_its_own():
    os.open(f"{folder}/nvidia0", os.O_RDONLY | os.O_CREAT)
    mark("ready")
def has_one_later():
    def later():
        held = os.open(f"{folder}/nvidia1", os.O_RDONLY | os.O_CREAT)
        mark("opened")
        time.sleep(600)
    mark("ready")
    wait_for("begun")
    child(later)
def has_one_that_only_maps_it():
    def maps():
        held = os.open(f"{folder}/nvidia1", os.O_RDWR | os.O_CREAT)
        os.write(held, b"queue")
        kept = mmap.mmap(held, 5)
        os.close(held)
        mark("ready")
        time.sleep(600)
    child(maps)
def has_one_whose_first_thread_ended():
    def held():
        os.open(f"{folder}/nvidia1", os.O_RDONLY | os.O_CREAT)
        mark("held")
        time.sleep(600)
    def threads():
        threading.Thread(target=held).start()
        wait_for("held")
        ctypes.CDLL(None).syscall(93 if os.uname().machine == "aarch64" else 60, 0)  # exit: of this thread
    pid = os.fork()
    if not pid: threads()
    while open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z": time.sleep(0.005)
    mark("ready")
def has_one_whose_thread_has_its_own():
    def own():
        assert ctypes.CDLL(None).unshare(0x400) == 0  # CLONE_FILES
        opens("nvidia1")
    def threads():
        threading.Thread(target=own).start()
        time.sleep(600)
    child(threads)
def has_one_with_an_odd_name():
    def leaves():
        ctypes.CDLL(None).prctl(15, b"\\xff\\x0c", 0, 0, 0)
        ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
        opens("nvidia1")
    child(leaves)

def candidate(channel):
    {submission}()
    quiet(channel)
def reference(channel):
    child(lambda: os.open(f"{folder}/nvidia2", os.O_RDONLY | os.O_CREAT) and time.sleep(600))
    quiet(channel)
def judge(ends):
    wait_for("ready")
    wait_for("nvidia2")
    if "{submission}" == "has_one_that_cannot_be_seen": lose_a_right(19)
    try:
        with companions.watched_alone(gpu, ends.pids, f"{folder}/nvidia"):
            mark("begun")
            if "{submission}" == "has_one_later": wait_for("opened")
    except Refused as refused:
        return {"status": refused.status, "reason": refused.reason, "begun": os.path.exists(f"{folder}/begun")}
    return {"status": "timed", "begun": True}
print(json.dumps(processes.run_roles(processes.Roles(judge, reference, candidate), 300)))
"""


def timed(tmp_path: Path, submission: str, gpu: str = "GPU-1") -> tuple[str, bool]:
    """The status, and whether anything was timed."""
    program = PROGRAM.replace("{submission}", submission)
    line = [sys.executable, "-I", "-c", program, str(HOME), gpu, str(tmp_path)]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)
    assert told["status"] != "tampering" or "a GPU open while calls are timed" in told["reason"]
    return told["status"], told["begun"]


@pytest.mark.parametrize(
    ("submission", "status", "begun"),
    [
        ("has_a_gpu", "tampering", False),
        ("has_an_orphan", "tampering", False),
        ("has_a_hidden_one", "tampering", False),
        ("has_one_with_an_odd_name", "tampering", False),
        ("has_one_that_only_maps_it", "tampering", False),
        ("has_one_whose_first_thread_ended", "tampering", False),
        ("has_one_whose_thread_has_its_own", "tampering", False),
        ("has_one_later", "tampering", True),
        ("has_a_file", "timed", True),
        ("has_one_that_ended", "timed", True),
        ("has_its_own", "timed", True),
    ],
)
def test_a_process_beside_the_submissions_has_no_gpu(tmp_path: Path, submission: str, status: str, begun: bool) -> None:
    assert timed(tmp_path, submission) == (status, begun)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root loses a right, and can give a process another user")
def test_what_root_in_a_container_is_not_shown_is_held_against_nobody(tmp_path: Path) -> None:
    assert timed(tmp_path, "has_one_that_cannot_be_seen") == ("timed", True)


def test_where_no_gpu_is_timed_nobody_is_asked(tmp_path: Path) -> None:
    assert timed(tmp_path, "has_a_gpu", gpu="") == ("timed", True)


def test_a_process_that_computes_for_a_submission_gives_right_results(judge: Judge) -> None:
    # As the suite's row for GPUs does: that one is refused for where it computes, and not because it does not work.
    answer = judge(helped("cpu"), call_timeout_s=120)
    assert answer.report.status == "correct", answer.report
