"""Locks of the machine between real processes: one at a time, in the order of asking, and never held by the dead."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from cuda_agent_judge.lock_queue import LockFault, LockQueue, StillHeld

ROOT = Path(__file__).resolve().parents[3] / "sandbox_image"
HOLDER = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from cuda_agent_judge.lock_queue import LockQueue
queue = LockQueue(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
drawn = []
queue.acquire(600, lambda waited: drawn or (drawn.append(1), print("waits", flush=True)))
print("holds", flush=True)
sys.stdin.readline()
queue.release()
print("released", flush=True)
"""


class Holder:
    """A process that gets in line, and says what becomes of it."""

    def __init__(self, locks: Path, resource: str, places: int = 1) -> None:
        command = [sys.executable, "-I", "-S", "-c", HOLDER, str(ROOT), str(locks), resource, str(places)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def let_go(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.says() == "released"

    def end(self, number: signal.Signals = signal.SIGKILL) -> None:
        self.process.send_signal(number)  # nothing happens where it has ended and was waited for
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()


class Line:
    """Makes holders and ends them."""

    def __init__(self, locks: Path) -> None:
        self.locks = locks
        self.holders: list[Holder] = []

    def joined(self, expected: str, resource: str = "GPU-1", places: int = 1) -> Holder:
        holder = Holder(self.locks, resource, places)
        self.holders.append(holder)
        assert holder.says() == expected
        return holder


@pytest.fixture
def line(tmp_path: Path) -> Iterator[Line]:
    made = Line(tmp_path)
    yield made
    for holder in made.holders:
        holder.end()


def test_waiters_follow_each_other_in_the_order_of_asking(line: Line) -> None:
    holder = line.joined("holds")
    waiters = [line.joined("waits") for _ in range(3)]
    holder.let_go()
    for index, waiter in enumerate(waiters):
        assert waiter.says() == "holds"
        late = line.joined("waits") if index == 0 else None
        waiter.let_go()
        waiters += [late] if late else []
    assert [name for name in os.listdir(line.locks) if not name.endswith(".door")] == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_holder_and_a_killed_waiter_are_out_of_the_line_at_once(line: Line, number: signal.Signals) -> None:
    holder, first, second = line.joined("holds"), line.joined("waits"), line.joined("waits")
    first.end(number)
    holder.end(number)
    assert second.says() == "holds"


def test_a_holder_that_stands_still_keeps_its_place(line: Line) -> None:
    holder = line.joined("holds")
    holder.process.send_signal(signal.SIGSTOP)
    with pytest.raises(StillHeld):
        LockQueue(line.locks, "GPU-1").acquire(0.3)
    holder.process.send_signal(signal.SIGCONT)
    holder.let_go()
    queue = LockQueue(line.locks, "GPU-1")
    queue.acquire(0)
    queue.release()


def test_who_gave_up_is_not_waited_for(line: Line) -> None:
    holder = line.joined("holds")
    with pytest.raises(StillHeld):
        LockQueue(line.locks, "GPU-1").acquire(0)
    waiter = line.joined("waits")
    holder.let_go()
    assert waiter.says() == "holds"


def test_resources_do_not_wait_for_each_other(line: Line) -> None:
    for resource in ("GPU-1", "GPU-2", "cpu", "GPU-11"):
        line.joined("holds", resource)


def test_as_many_hold_at_a_time_as_there_are_places(line: Line) -> None:
    holders = [line.joined("holds", "build", places=2) for _ in range(2)]
    waiters = [line.joined("waits", "build", places=2) for _ in range(2)]
    holders[1].let_go()
    assert waiters[0].says() == "holds"
    holders[0].end()
    assert waiters[1].says() == "holds"


def test_two_never_hold_it_at_once_and_all_get_their_turns(tmp_path: Path) -> None:
    inside, most, turns = 0, 0, []
    guard = threading.Lock()

    def take(name: int) -> None:
        nonlocal inside, most
        for _ in range(20):
            queue = LockQueue(tmp_path, "cpu")
            queue.acquire(600)
            with guard:
                inside += 1
                most = max(most, inside)
                turns.append(name)
            with guard:
                inside -= 1
            queue.release()

    threads = [threading.Thread(target=take, args=(name,)) for name in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1
    assert sorted(turns) == sorted(list(range(4)) * 20)


def test_a_ticket_of_the_dead_is_swept_away(line: Line) -> None:
    line.joined("holds").end()
    assert len(list(line.locks.glob("GPU-1.0*"))) == 1
    line.joined("holds").let_go()
    assert not list(line.locks.glob("GPU-1.0*"))


@pytest.mark.parametrize(("planted", "usable"), [("door", False), ("0000000000000003", True)])
def test_a_link_that_somebody_planted_is_not_followed(tmp_path: Path, planted: str, usable: bool) -> None:
    secret = tmp_path / "secret"
    secret.write_text("as it was")
    locks = tmp_path / "locks"
    locks.mkdir()
    (locks / f"cpu.{planted}").symlink_to(secret)
    queue = LockQueue(locks, "cpu")
    if usable:
        queue.acquire(0)
        queue.release()
    else:
        with pytest.raises(LockFault):
            queue.acquire(0)
    assert secret.read_text() == "as it was"


def test_a_directory_that_is_not_there_or_a_link_is_said(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    for name in ("nowhere", "link"):
        with pytest.raises(LockFault):
            LockQueue(tmp_path / name, "cpu").acquire(0)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can hand a directory to another user")
@pytest.mark.parametrize(("mode", "usable"), [(0o777, False), (0o1777, True)])
def test_another_users_directory_serves_only_where_nobody_removes_anothers_files(
    tmp_path: Path, mode: int, usable: bool
) -> None:
    locks = tmp_path / "locks"
    locks.mkdir()
    locks.chmod(mode)
    os.chown(locks, 4321, 4321)
    queue = LockQueue(locks, "cpu")
    if usable:
        queue.acquire(0)
        queue.release()
    else:
        with pytest.raises(LockFault, match="another user"):
            queue.acquire(0)
