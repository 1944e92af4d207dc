"""A worker's threads are woken on different cores and may use them all again."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from judging import Judge, model_new

from cuda_agent_judge import cores
from cuda_agent_judge.process_tree import state_of
from cuda_agent_judge.turns import Turns

THREADS = """
import os, sys, threading
narrow = eval(sys.argv[1])
def sleep():
    if narrow: os.sched_setaffinity(0, narrow)
    ready.release()
    threading.Event().wait()
ready = threading.Semaphore(0)
for _ in range(3): threading.Thread(target=sleep, daemon=True).start()
for _ in range(3): ready.acquire()
print("ready", flush=True)
threading.Event().wait()
"""
MINE = os.sched_getaffinity(0)


class Sleeper:
    """A process with three threads beside its main one that all sleep."""

    def __init__(self, narrow: set[int]) -> None:
        line = [sys.executable, "-c", THREADS, repr(narrow)]
        self._process = subprocess.Popen(line, stdout=subprocess.PIPE)
        self.pid = self._process.pid
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def stop(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)
        while state_of(self.pid) != b"T":
            pass

    def end(self) -> None:
        with self._process:
            self._process.kill()


@pytest.fixture
def sleeper() -> Iterator[Sleeper]:
    found = Sleeper(set())
    yield found
    found.end()


@pytest.fixture(autouse=True)
def _free() -> Iterator[None]:
    yield
    os.sched_setaffinity(0, MINE)


def test_the_main_threads_core_is_left_to_it_and_the_others_share_the_rest(sleeper: Sleeper) -> None:
    sleeper.stop()
    before = cores.spread(sleeper.pid)
    bound = cores.allowed(sleeper.pid)
    assert before == dict.fromkeys([sleeper.pid, *bound, 0], MINE)
    assert bound.pop(sleeper.pid) == MINE
    assert len(bound) == 3
    if len(MINE) > 1:
        assert [len(mask) for mask in bound.values()] == [1] * 3
        used = set.union(*bound.values())
        assert len(used) == min(3, len(MINE) - 1)
        assert used <= os.sched_getaffinity(0) < MINE


def test_all_may_run_where_they_might_before(sleeper: Sleeper) -> None:
    sleeper.stop()
    before = cores.spread(sleeper.pid)
    cores.restore(sleeper.pid, before)
    assert cores.allowed(sleeper.pid) | {0: os.sched_getaffinity(0)} == before


def test_threads_that_bound_themselves_stay_so() -> None:
    sleeper = Sleeper({min(MINE)})
    try:
        sleeper.stop()
        before = cores.spread(sleeper.pid)
        others = {thread: mask for thread, mask in before.items() if thread not in (sleeper.pid, 0)}
        assert list(others.values()) == [{min(MINE)}] * 3
        assert all(cores.allowed(sleeper.pid)[thread] == mask for thread, mask in others.items())
    finally:
        sleeper.end()


@pytest.mark.parametrize("submission", [True, False])
def test_who_is_woken_for_a_call_is_bound_until_it_has_ended(sleeper: Sleeper, submission: bool) -> None:
    other = Sleeper(set())
    try:
        turns = Turns(*((other.pid, sleeper.pid) if submission else (sleeper.pid, other.pid)))
        (turns.stop_candidate if submission else turns.stop_reference)()
        before = cores.allowed(sleeper.pid)
        with turns.placed(submission=submission):
            (turns.wake_submission if submission else turns.wake_reference)()
            assert state_of(sleeper.pid) != b"T"
            assert (cores.allowed(sleeper.pid) != before) == (len(MINE) > 1)
        assert cores.allowed(sleeper.pid) == before
        assert os.sched_getaffinity(0) == MINE
    finally:
        other.end()


def test_what_a_bound_thread_started_is_bound_no_longer(sleeper: Sleeper) -> None:
    before = cores.allowed(sleeper.pid)
    started = max(before)
    os.sched_setaffinity(started, {min(MINE)})
    cores.restore(sleeper.pid, {thread: mask for thread, mask in before.items() if thread != started})
    assert cores.allowed(sleeper.pid) == before


def test_a_process_that_is_gone_has_no_threads(sleeper: Sleeper) -> None:
    sleeper.end()
    masks = cores.spread(sleeper.pid)
    assert masks == {0: MINE}
    cores.restore(sleeper.pid, masks)


def test_who_does_not_stand_still_is_not_bound(sleeper: Sleeper) -> None:
    turns = Turns(sleeper.pid, sleeper.pid)
    before = cores.allowed(sleeper.pid)
    for submission in (True, False):
        with turns.placed(submission=submission):
            assert cores.allowed(sleeper.pid) == before


def test_threads_that_a_timed_call_starts_may_use_every_core(judge: Judge) -> None:
    forward = """
found = []
thread = threading.Thread(target=lambda: found.append(os.sched_getaffinity(0)))
thread.start()
thread.join()
assert found == [os.sched_getaffinity(0)] == [EVERY], found
return torch.relu(x) * 2
"""
    head = f"import os, threading\nEVERY = {MINE!r}"
    report = judge(model_new(forward, head=head), command="verdict").report
    assert report.latency_ms["submission"].calls > 4, report
