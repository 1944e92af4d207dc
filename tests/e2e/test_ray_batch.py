"""A batch on a Ray cluster of several machines, played by one: real Ray processes, runs that are the stand-in's."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.unit.agent.batch.field import OPERATOR, PROGRAM, Heard, by_name

from cuda_agent.batch.conduct import End, Means
from cuda_agent.batch.listing import Selection, find
from cuda_agent.batch.order import Order
from cuda_agent.batch.ray_engine import RayEngine
from cuda_agent.batch.running import Attempt, Ended, Halt, Patience
from cuda_agent.batch.whole import Outcome, carry_out
from cuda_agent.config import Settings
from cuda_agent.errors import ConfigError

pytest.importorskip("ray", reason="needs Ray: pip install 'cuda-agent[ray]'")

ROOT = Path(__file__).resolve().parents[2]
STORE_BYTES = 80 << 20
"""The least that Ray takes."""


@dataclass
class Machines:
    """A cluster: a head that runs nothing, and machines of two GPUs each."""

    cluster: Any
    nodes: list[Any]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    def add(self) -> None:
        self.nodes.append(self.cluster.add_node(num_cpus=4, num_gpus=2, object_store_memory=STORE_BYTES))

    def kill(self) -> None:
        self.cluster.remove_node(self.nodes.pop(), allow_graceful=False)


@pytest.fixture(scope="module")
def machines() -> Iterator[Machines]:
    from ray.cluster_utils import Cluster

    sources = [str(ROOT), *(str(ROOT / name) for name in ("agent", "tools", "sandbox_image"))]
    before = os.environ.get("PYTHONPATH")
    # Whatever Ray starts finds the program as this process does.
    os.environ["PYTHONPATH"] = os.pathsep.join([*sources, *([before] if before else [])])
    try:
        cluster = Cluster(
            initialize_head=True,
            head_node_args={"num_cpus": 0, "num_gpus": 0, "object_store_memory": STORE_BYTES},
        )
        made = Machines(cluster, [])
        made.add()
        yield made
        cluster.shutdown()
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


def batch(
    machines: Machines, root: Path, does: dict[str, str], heard: Heard, halt: Callable[[], Halt] = lambda: Halt.NO
) -> Outcome:
    operators, folder = root / "operators", root / "batch"
    operators.mkdir(exist_ok=True)
    folder.mkdir(exist_ok=True)
    for name, word in does.items():
        (operators / f"{name}.py").write_text(OPERATOR.format(word))
    settings = Settings(operator=operators)
    order = Order(find(operators, Selection()), ("builtin",), settings, "a test")
    patience = Patience(ending_s=20.0, locked_s=60.0)
    engine = RayEngine.connect(machines.address, 2 * len(machines.nodes), cuda=True, folder=folder)
    means = Means(settings=settings, program=PROGRAM, stopping=halt, patience=patience)
    return carry_out(folder, order, means, engine, heard)


def starts(root: Path, name: str) -> list[str]:
    return (root / "operators" / "starts" / name).read_text().splitlines()


def under_way(root: Path, names: list[str]) -> bool:
    return all((root / "batch" / "runs" / name / "trajectory.jsonl").exists() for name in names)


def test_a_machine_that_is_killed_loses_no_run_and_no_run_is_made_twice(
    machines: Machines, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    machines.add()
    names = [f"op_{number}" for number in range(8)]
    heard = Heard()

    def kill_one() -> None:
        if len(machines.nodes) == 2 and under_way(tmp_path, names[:4]):
            machines.kill()

    heard.on_tick = kill_one
    outcome = batch(machines, tmp_path, dict.fromkeys(names, "win 1"), heard)
    found = by_name(outcome)
    assert len(machines.nodes) == 1
    assert {name: found[name].status for name in names} == dict.fromkeys(names, "win")
    lost = [name for name in names if found[name].attempts > 1]
    assert len(lost) == 2  # the machine had two GPUs, and there were as many runs as GPUs
    assert {name: [line.split()[0] for line in starts(tmp_path, name)] for name in names} == {
        name: ["optimize", "resume"] if name in lost else ["optimize"] for name in names
    }
    assert {line.split()[1] for name in names for line in starts(tmp_path, name)} == {"0", "1"}
    assert (outcome.ending.end, outcome.exit_code) == (End.DONE, 0)
    assert capfd.readouterr().out == ""


def test_an_interrupt_ends_what_runs_elsewhere_in_order(machines: Machines, tmp_path: Path) -> None:
    names = ["op_0", "op_1", "op_2"]
    how = Halt.NO
    heard = Heard()

    def interrupt() -> None:
        nonlocal how
        if under_way(tmp_path, names[:2]):
            how = Halt.IN_ORDER

    heard.on_tick = interrupt
    outcome = batch(machines, tmp_path, dict.fromkeys(names, "win 60"), heard, lambda: how)
    assert (outcome.ending.end, outcome.exit_code) == (End.INTERRUPTED, 130)
    assert not (tmp_path / "operators" / "starts" / names[2]).exists()
    documents = [json.loads((tmp_path / "batch" / "runs" / name / "run.json").read_text()) for name in names[:2]]
    assert [document["status"] for document in documents] == ["interrupted"] * 2  # they were told, and did not end


def test_a_folder_that_a_machine_does_not_see_is_said_and_nothing_is_run(
    machines: Machines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    missing = Path("/proc/self/cwd/elsewhere")  # is there for this process only
    ran = tmp_path / "ran"
    command = (sys.executable, "-c", f"open({str(ran)!r}, 'w')")
    attempt = Attempt("op", command, missing / "op", missing / "op.log")
    with RayEngine.connect(machines.address, cuda=True, folder=missing, seen_s=0.5) as engine:
        assert engine.described["gpus"] == str(2 * len(machines.nodes))
        engine.begin(attempt)
        found = list[Ended]()
        while not found:
            found = engine.ended(1.0)
    assert [(one.job, one.exit_code, one.kind) for one in found] == [("op", 3, "config")]
    assert "is not there" in found[0].message
    assert "a folder that all machines of the cluster share" in found[0].message
    assert not ran.exists()


def test_where_no_cluster_runs_a_sentence_says_what_to_do(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))  # where a cluster of this machine would be looked up
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(ConfigError, match="ray start --head"):
        RayEngine.connect("no such address", folder=tmp_path)
