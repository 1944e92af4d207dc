"""Submissions that want to look faster than they are."""

from judging import model_new

from suite.row import BOTH, Row

STEALING = """
import time
real, real_ns, stolen = time.perf_counter, time.perf_counter_ns, [0.0]
time.perf_counter = time.monotonic = lambda: real() - stolen[0]
time.perf_counter_ns = time.monotonic_ns = lambda: real_ns() - int(stolen[0] * 1e9)
elapsed, mine = torch.cuda.Event.elapsed_time, [False]
def shorter(start, end):
    took, mine[0] = (1e-6 if mine[0] else elapsed(start, end)), False
    return took
torch.cuda.Event.elapsed_time = shorter
"""
FORGED = """
import gc
import cuda_agent_judge.runner as runner
runner._now_ns = lambda: 0
for one in gc.get_objects():
    if type(one).__name__ == "Runner": one._elapsed = lambda *a: 1e-3
"""

ROWS = (
    Row(
        "a slow one that patches the clocks",
        "46",
        model_new(
            "began = real()\nfor _ in range(40): y = torch.relu(x) * 2\n"
            "mine[0] = True\nstolen[0] += real() - began\nreturn y",
            head=STEALING,
        ),
        ("slower",),
        plain=BOTH,
        by="the clock is the judge's own, or read before the submission is loaded",
        command="verdict",
    ),
    Row(
        "a slow one that forges the worker's clock",
        "46",
        model_new("for _ in range(100): y = torch.relu(x) * 2\nreturn y", head=FORGED),
        ("tampering", "slower"),  # where load blurs both of the judge's clocks these count, and nothing more is said
        off=("clock",),
        command="verdict",
    ),
    Row(
        "sleeps so that the device cools",
        "77",
        model_new("time.sleep(0.05)\nreturn torch.relu(x) * 2", head="import time"),
        ("slower",),
        by="a call lasts until its result is there",
        unshown="it gains nothing from a plain checker either",
        command="verdict",
    ),
)
