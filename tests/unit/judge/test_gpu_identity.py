"""The GPU that was given is the one that is locked, watched, compiled for and timed, whichever way it was named."""

import ast
import contextlib
import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from simulated_driver import FAST, SLOW, Driver

from cuda_agent_judge import environment
from cuda_agent_judge.commands import empty_report
from cuda_agent_judge.defences import ALL
from cuda_agent_judge.judge import Judgement
from cuda_agent_judge.phases import Phases
from cuda_agent_judge.processes import JudgeEnds, JudgeFault
from cuda_agent_judge.protocol import Kind, PeerLost, pair
from cuda_agent_judge.session import load
from cuda_agent_judge.workers import Refused

VISIBLE = "from cuda_agent_judge.gpu import {0}; print({0}(os.environ))"
NAMED = [
    ({}, FAST),
    ({"CUDA_VISIBLE_DEVICES": "0"}, FAST),
    ({"CUDA_VISIBLE_DEVICES": "1"}, SLOW),
    ({"CUDA_VISIBLE_DEVICES": "1,0"}, SLOW),
    ({"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}, SLOW),
    ({"CUDA_VISIBLE_DEVICES": "GPU-a"}, SLOW),
    ({"CUDA_VISIBLE_DEVICES": SLOW}, SLOW),
    ({"CUDA_VISIBLE_DEVICES": f"{FAST},{SLOW}"}, FAST),
    ({"CUDA_VISIBLE_DEVICES": ""}, ""),
    ({"CUDA_VISIBLE_DEVICES": "7"}, ""),
]
HELD = """
from cuda_agent_judge.slots import Slots
slots = Slots("cuda", Path(sys.argv[1]))
with slots.device.held():
    print(slots.gpu, flush=True)
    sys.stdin.readline()
"""
FREE = """
from cuda_agent_judge.slots import Slots, if_free
with if_free(Slots("cuda", None).gpu, Path(sys.argv[1])) as free:
    print(free)
"""
WATCHED = """
from cuda_agent_judge.nvml import watched
from cuda_agent_judge.slots import Slots
with watched(Slots("cuda", None).gpu, [os.getpid()]) as watch:
    pass
print({"mhz": watch.states["before"]["sm_mhz"], "notes": watch.notes})
"""


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Driver:
    return Driver(tmp_path_factory.mktemp("driver"))


def shown(**given: str) -> dict[str, str]:
    """What of a caller's environment the judge itself has."""
    clean = environment.clean({"PATH": "", **given})
    return {name: value for name, value in clean.items() if name.startswith("CUDA_")}


@pytest.mark.parametrize("how", ["visible_gpu", "asked_aside"])
@pytest.mark.parametrize(("given", "uuid"), NAMED)
def test_a_gpu_is_known_by_its_uuid_however_it_was_named(
    driver: Driver, how: str, given: dict[str, str], uuid: str
) -> None:
    assert driver.asked(VISIBLE.format(how), environ=shown(**given)) == uuid


def test_who_asks_aside_has_not_called_the_driver(driver: Driver) -> None:
    script = VISIBLE.format("asked_aside") + "; print('libcuda' in Path('/proc/self/maps').read_text())"
    assert driver.asked(script, environ=shown(CUDA_VISIBLE_DEVICES="1")).split() == [SLOW, "False"]


def test_two_names_of_one_gpu_are_one_lock_and_a_dead_holders_is_free(driver: Driver, tmp_path: Path) -> None:
    def free(named: str) -> bool:
        return ast.literal_eval(driver.asked(FREE, str(tmp_path), environ=shown(CUDA_VISIBLE_DEVICES=named))) is True

    with driver.started(HELD, str(tmp_path), environ=shown(CUDA_VISIBLE_DEVICES="1")) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == SLOW
        assert [free(named) for named in (SLOW, "1", FAST, "0")] == [False, False, True, True]
        holder.kill()
    assert [free(named) for named in (SLOW, "1")] == [True, True]


@pytest.mark.parametrize(("named", "mhz", "others"), [("0", 2000, 1), ("1", 1000, 0), (SLOW, 1000, 0)])
def test_clocks_and_other_processes_are_those_of_the_gpu_that_is_timed(
    driver: Driver, named: str, mhz: int, others: int
) -> None:
    told = ast.literal_eval(driver.asked(WATCHED, environ=shown(CUDA_VISIBLE_DEVICES=named)))
    assert told["mhz"] == mhz
    assert len(told["notes"]) == others


@pytest.mark.parametrize(("named", "arch"), [("0", "90a"), ("1", "80"), (FAST, "90a"), (SLOW, "80")])
def test_kernels_are_compiled_for_the_gpu_that_they_run_on(driver: Driver, named: str, arch: str) -> None:
    script = "from cuda_agent_judge.toolchain import gpu_arch; print(gpu_arch())"
    assert driver.asked(script, environ=shown(CUDA_VISIBLE_DEVICES=named)) == arch


@pytest.mark.parametrize(("uuid", "percent"), [(SLOW, 3.0), (FAST, 97.0)])
def test_how_busy_a_neighbour_is_is_asked_of_that_gpu(driver: Driver, uuid: str, percent: float) -> None:
    bench = Path(__file__).resolve().parents[3]
    script = (
        f"sys.path.insert(0, {str(bench)!r}); from bench.load import busyness; print(busyness('cuda', sys.argv[1])())"
    )
    assert float(driver.asked(script, uuid, environ={})) == percent


@pytest.fixture
def processes() -> Iterator[dict[str, int]]:
    """Stand where the workers' processes do, which the judge ends."""
    running = {name: subprocess.Popen(["sleep", "600"]) for name in ("reference", "candidate")}
    yield {name: process.pid for name, process in running.items()}
    for process in running.values():
        process.kill()
        process.wait()


@pytest.mark.parametrize(("found", "refused"), [(FAST, True), (SLOW, False)])
def test_nothing_is_timed_where_the_reference_is_on_another_gpu(
    processes: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str, refused: bool
) -> None:
    (tmp_path / "session.json").write_text(json.dumps({"target": "cuda"}))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", SLOW)
    session = load(tmp_path)
    reference, candidate, parent = (pair(bytes([number]) * 16) for number in range(3))
    ends = JudgeEnds(reference[0], candidate[0], parent[0], processes)
    heard: list[Kind] = []

    def worker() -> None:
        with contextlib.suppress(PeerLost):
            while True:
                heard.append(reference[1].receive(60).kind)
                body = {"phases": {}, "environment": {"gpu": found}, "notes": [], "sets": 2}
                reference[1].send(
                    Kind.ANSWER if len(heard) < 3 else Kind.FAULT, body | {"sentence": "no GPU to draw on"}
                )

    thread = threading.Thread(target=worker)
    thread.start()
    report = empty_report("profile", session, final=False, nonce="")
    judgement = Judgement(session, report, ends, None, Phases(), ALL, ipc=True)
    with pytest.raises(JudgeFault if refused else Refused, match=f"{FAST}, and {SLOW} was" if refused else "draw on"):
        judgement.baseline()
    reference[0].close()
    thread.join()
    for channel in (reference[1], *candidate, *parent):
        channel.close()
    assert heard == [Kind.OPEN, Kind.SETUP, *([] if refused else [Kind.DRAW]), Kind.LEAVE]
