"""An operator whose code does not end: it is ended and named, the device is free at once, and nothing of it is left."""

import json
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from judging import HOME, Answer, invoke, model_new
from serving import Served, runs

from cuda_agent_judge.lock_queue import LockQueue
from cuda_agent_judge.process_tree import descendants, is_running

LIMIT_S = 6
"""Of each step; also honest ones have to fit in while several judges share few cores."""
HELD = """
import ctypes, os, time, torch
def stay():
    open(PLACE, 'w').write(str(os.getpid()))
    while True: time.sleep(1)
"""
STUCK = HELD.replace("while True: time.sleep(1)", "ctypes.PyDLL(None).pause()")
"""Here nobody else gets the interpreter: no thread could end it."""
OPERATOR = """
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {init}
    def forward(self, x):
        {forward}
        return torch.relu(x)
{head}
CALLS = []
def get_inputs():
    CALLS.append(1)
    {inputs}
    return [torch.rand(64, 64)]
"""
QUIET = {"init": "pass", "forward": "pass", "head": "", "inputs": "pass"}
HANGING = {
    # where it hangs: (the command, what is written there, in which way, what is said)
    "import": ("analyze", {"head": "stay()"}, HELD, "the import"),
    "init inputs": ("analyze", {"head": "def get_init_inputs(): stay()"}, HELD, "get_init_inputs()"),
    "init": ("analyze", {"init": "stay()"}, HELD, "the constructor of Model, called with get_init_inputs(),"),
    "inputs": ("analyze", {"inputs": "stay()"}, STUCK, "get_inputs()"),
    "forward": ("analyze", {"forward": "stay()"}, STUCK, "forward"),
    "a later draw": ("analyze", {"inputs": "len(CALLS) < 3 or stay()"}, HELD, "get_inputs()"),
    "tracing": (
        "analyze",
        {"forward": "torch.utils._python_dispatch._get_current_dispatch_mode() is None or stay()"},
        HELD,
        "forward, while its operations are recorded,",
    ),
    "beside a submission": ("verify", {"inputs": "len(CALLS) < 4 or stay()"}, HELD, "get_inputs()"),
}


@dataclass(frozen=True)
class Ground:
    """A session of an operator that hangs."""

    root: Path

    def lay(self, lines: dict[str, str], way: str) -> None:
        for name in ("session/operator", "locks", "workspace"):
            (self.root / name).mkdir(parents=True)
        (self.root / "workspace" / "model_new.py").write_text(model_new("return torch.relu(x)"))
        source = f"PLACE = {str(self.root / 'hung')!r}\n" + way + OPERATOR.format(**{**QUIET, **lines})
        (self.root / "session" / "operator" / "model.py").write_text(source)
        settings = {
            "libraries": "any",
            "operator_timeout_s": LIMIT_S,
            "locks": str(self.root / "locks"),
            "model_shares_uid": True,
        }
        (self.root / "session" / "session.json").write_text(json.dumps(settings))

    def answer(self, command: str) -> Answer:
        return invoke(self.root / "session", self.root / "workspace", command, self.root / "report.json")

    def serve(self) -> Served:
        place = self.root / "judge.sock"
        paths = ["--session", str(self.root / "session"), "--workspace", str(self.root / "workspace")]
        line = [sys.executable, "-I", str(HOME), "serve", *paths, "--socket", str(place)]
        process = subprocess.Popen(line, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        process.stdout.readline()
        return Served(process, place)

    @property
    def is_free(self) -> bool:
        """Nothing is left of what hung, and nobody holds the device."""
        LockQueue(self.root / "locks", "cpu").acquire(0)
        return not is_running(int((self.root / "hung").read_text()))


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ground, Answer]]:
    """What the judge says of each; two at a time, since most of it is waiting."""
    root = tmp_path_factory.mktemp("hanging")

    def ask(name: str) -> tuple[Ground, Answer]:
        command, lines, way, _ = HANGING[name]
        ground = Ground(root / name.replace(" ", "_"))
        ground.lay(lines, way)
        return ground, ground.answer(command)

    with ThreadPoolExecutor(max_workers=2) as pool:
        return dict(zip(HANGING, pool.map(ask, HANGING), strict=True))


@pytest.mark.parametrize("name", HANGING)
def test_a_step_of_the_operator_that_does_not_end_is_ended_and_named(
    answers: dict[str, tuple[Ground, Answer]], name: str
) -> None:
    ground, answer = answers[name]
    said = f"{HANGING[name][3]} in model.py did not end within {LIMIT_S} s (operator_timeout_s)"
    assert (answer.report.status, answer.code) == ("operator_error", 2)
    assert answer.report.reason.startswith(said)
    assert ground.is_free


@pytest.mark.parametrize(
    ("work", "ended", "said"),
    [
        ("with Steps(0.3).step('forward'): time.sleep(600)", -signal.SIGALRM, ""),
        ("with Steps(0.3).step('forward'): pass\ntime.sleep(0.6)\nprint('on')", 0, "on\n"),
        ("with Steps().step('forward'): time.sleep(0.6)\nprint('on')", 0, "on\n"),
    ],
    ids=["it hangs", "it has ended", "no limit"],
)
def test_a_step_that_nobody_waits_for_ends_its_process_too(work: str, ended: int, said: str) -> None:
    line = [sys.executable, "-c", f"import time\nfrom cuda_agent_judge.steps import Steps\n{work}"]
    done = subprocess.run(line, capture_output=True, text=True, check=False, env={"PYTHONPATH": str(HOME)})
    assert (done.returncode, done.stdout) == (ended, said)


@pytest.fixture
def ground() -> Iterator[Ground]:
    with tempfile.TemporaryDirectory(prefix="hang-") as folder:  # a socket's path must be short
        yield Ground(Path(folder))


def test_a_judge_that_listens_names_it_too_and_its_worker_is_gone(ground: Ground) -> None:
    ground.lay({"forward": "stay()"}, STUCK)
    served = ground.serve()
    try:
        told = served.ask("analyze", "--json")
        report = json.loads(told.stdout.splitlines()[-1])
        assert report["reason"].startswith(f"forward in model.py did not end within {LIMIT_S} s (operator_timeout_s)")
        assert told.code == 2
        assert ground.is_free
    finally:
        below = descendants(served.process.pid)
        served.process.terminate()
        served.process.communicate()
    assert not any(map(runs, below))
