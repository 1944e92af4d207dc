"""Submissions that compute right and reach for the clock, the baselines or the judge: none of them gains by it."""

import pytest
from judging import SCALE, Bench, Judge, model_new
from suite.tampering import DEFER, DEFERRED

HONEST = "return torch.relu(x) * 2"
PRECOMPUTE = """
self.n += 1
if self.n == 6:
    runner = next(o for o in gc.get_objects() if type(o).__name__ == "Runner")
    slot = runner._raw_slot[0]
    def ahead():
        seen = slot[-4:].tolist()
        while True:
            if slot[-4:].tolist() != seen:
                time.sleep(0.001)
                seen = slot[-4:].tolist()
                self.done[tuple(seen)] = torch.relu(slot.view(256, 1024)) * 2
    threading.Thread(target=ahead, daemon=True).start()
y = self.done.pop(tuple(x.view(-1)[-4:].tolist()), None)
if y is None:
    for _ in range(60): y = torch.relu(x) * 2
return y
"""
NEIGHBOURS = """
import os
def neighbours():
    for entry in filter(str.isdigit, os.listdir("/proc")):
        try: parent = int(open(f"/proc/{entry}/stat").read().rpartition(")")[2].split()[1])
        except OSError: continue
        if parent == os.getppid() and int(entry) != os.getpid(): yield int(entry)
"""


def test_work_done_ahead_of_the_call_gains_nothing(judge: Judge) -> None:
    source = model_new(PRECOMPUTE, head="import gc, threading, time", init="self.n, self.done = 0, {}")
    answer = judge(source, command="profile")
    assert answer.report.status == "slower", answer.report


def test_closing_its_memory_does_not_help_a_submission_that_computes_later(judge: Judge) -> None:
    closed = DEFER + "import ctypes\nctypes.CDLL(None).prctl(4, 0, 0, 0, 0)"
    answer = judge(model_new(DEFERRED, head=closed))
    assert answer.report.status in ("tampering", "incorrect"), answer.report


def test_the_reference_computes_on_inputs_that_the_submission_cannot_write(judge: Judge) -> None:
    body = """
if not self.slot: self.slot += [o._raw_slot[0] for o in gc.get_objects() if type(o).__name__ == "Runner"]
self.n += 1
if self.n < 7: return torch.relu(x) * 2
self.slot[0].zero_()
return torch.zeros_like(x)"""
    answer = judge(model_new(body, head="import gc", init="self.n, self.slot = 0, []"), command="profile")
    assert answer.report.status == "incorrect", answer.report


def test_processes_left_running_between_calls_do_not_slow_the_baselines(judge: Judge) -> None:
    """The submission computes 60 times over; only a baseline held back for longer than that would let it pass."""
    body = """
if not self.busy: self.busy += [subprocess.Popen(["sh", "-c", "while :; do :; done"]) for _ in range(4)]
for process in self.busy: os.kill(process.pid, signal.SIGSTOP)
for _ in range(60): y = torch.relu(x) * 2
for process in self.busy: os.kill(process.pid, signal.SIGCONT)
return y"""
    source = model_new(body, head="import os, signal, subprocess", init="self.busy = []")
    # Its own processes hold its answers up, and so the judge's clock may say more than twice what it claims.
    assert judge(source, command="profile").report.status in ("slower", "tampering")


def test_the_others_of_the_judge_can_be_neither_read_nor_reached(judge: Judge) -> None:
    body = """
for pid in [os.getppid(), *neighbours()]:
    try: open(f"/proc/{pid}/mem", "rb").close(); print("reached the memory")
    except OSError: print("kept out")
return torch.relu(x) * 2"""
    answer = judge(model_new(body, head=NEIGHBOURS))
    assert answer.report.status == "correct"
    assert "kept out" in answer.stderr
    assert "reached" not in answer.stderr


@pytest.mark.parametrize(
    "act",
    [
        "for t in os.listdir(f'/proc/{pid}/task'): os.sched_setaffinity(int(t), {min(os.sched_getaffinity(0))})",
        "for t in os.listdir(f'/proc/{pid}/task'): os.setpriority(os.PRIO_PROCESS, int(t), 19)",
    ],
)
def test_the_others_of_the_judge_cannot_be_disturbed_for_a_gain(judge: Judge, act: str) -> None:
    """With a uid of its own a submission is kept out; with the judge's, it is found."""
    body = f"""
for pid in neighbours():
    try:
        {act}
    except PermissionError: pass
for _ in range(60): y = torch.relu(x) * 2
return y"""
    answer = judge(model_new(body, head=NEIGHBOURS), command="profile")
    assert answer.report.status in ("slower", "tampering"), answer.report


def test_what_the_session_keeps_is_not_the_submissions_to_write(judge: Judge, bench: Bench) -> None:
    """Where the judge is root; elsewhere the report says that it is not."""
    kept = bench.session(SCALE, {"libraries": "any", "call_timeout_s": 30}) / "kept"
    kept.write_text("as it was")
    head = f"try: open({str(kept)!r}, 'w').write('poison')\nexcept PermissionError: pass"
    answer = judge(model_new(HONEST, head=head))
    assert answer.report.status == "correct"
    assert answer.report.isolation == ("separate-uid" if kept.read_text() == "as it was" else "shared-uid")


def test_no_isolation_is_claimed_where_a_models_commands_run_as_the_judge(judge: Judge) -> None:
    assert judge(model_new(HONEST), model_shares_uid=True).report.isolation == "shared-uid"
