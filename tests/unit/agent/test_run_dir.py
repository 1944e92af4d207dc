import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

from cuda_agent import files
from cuda_agent.errors import ConfigError
from cuda_agent.files import DiskError, LineFile
from cuda_agent.run_dir import RunDir, default_path, load_document


def test_a_run_folder_that_exists_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    with pytest.raises(ConfigError, match="exists already"):
        RunDir.create(tmp_path / "run", "op")
    assert list((tmp_path / "run").iterdir()) == []


def test_a_dangling_link_counts_as_existing(tmp_path: Path) -> None:
    (tmp_path / "run").symlink_to(tmp_path / "nowhere")
    with pytest.raises(ConfigError, match="exists already"):
        RunDir.create(tmp_path / "run", "op")


def test_the_default_folder_has_a_stamp_and_a_plain_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = default_path("../my op/größe")
    assert path.parent == Path("runs")
    assert path.name.endswith("Z-my_op_größe")
    path.mkdir(parents=True)
    assert default_path("../my op/größe") != path


def test_run_json_is_replaced_whole_and_read_back(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "with space/läuft", "op")
    run.save({"status": "running"})
    run.save({"status": "done"})
    assert load_document(run.path)["status"] == "done"
    assert sorted(path.name for path in run.path.iterdir()) == [".reserve", "run.json", "workspace"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"schema": 99}'])
def test_a_folder_that_is_no_run_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ConfigError, match=r"schema|run's folder"):
        load_document(tmp_path)


def test_best_holds_the_last_kept_submission_and_its_report(tmp_path: Path) -> None:
    run = RunDir.create(tmp_path / "run", "op")
    run.keep_best({"model_new.py": b"a", "kernels/old.cpp": b""}, '{"n": 1}')
    run.keep_best({"model_new.py": b"b", "kernels/new.cpp": b""}, '{"n": 2}')
    found = {path.relative_to(run.best).as_posix() for path in run.best.rglob("*") if path.is_file()}
    assert found == {"model_new.py", "kernels/new.cpp", "report.json"}
    assert json.loads((run.best / "report.json").read_text()) == {"n": 2}
    assert not list(run.path.glob(".best*"))


@pytest.mark.parametrize("name", ["../x", "/etc/x", "kernels/../../x", ""])
def test_best_takes_no_file_outside_its_folder(tmp_path: Path, name: str) -> None:
    run = RunDir.create(tmp_path / "run", "op")
    with pytest.raises(ConfigError, match="outside"):
        run.keep_best({name: b""}, "{}")
    assert not run.best.exists()


def test_a_full_device_is_one_sentence() -> None:
    with LineFile(Path("/dev/full")) as file, pytest.raises(DiskError, match="disk is full"):
        file.append(b"x")


FULL_DISK = """
import random
import sys
from pathlib import Path
from cuda_agent import files
from cuda_agent.run_dir import RunDir
from cuda_agent.snapshots import Snapshots

run = RunDir.create(Path(sys.argv[1]), "op")
run.save({"status": "running"})
run.keep_best({"model_new.py": b"good"}, "{}")
lines = run.open_trajectory()
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
failures = []
def attempt(work):
    try:
        work()
    except files.DiskError as error:
        failures.append(str(error))
attempt(lambda: run.save({"status": "x" * 10_000}))
attempt(lambda: run.keep_best({"model_new.py": b"y" * 10_000}, "{}"))
attempt(lambda: Snapshots(run.snapshots).keep(random.randbytes(10_000)))
for _ in range(3):
    attempt(lambda: lines.append(b"l" * 1500))
attempt(lambda: RunDir.create(Path(sys.argv[1] + " 2"), "op"))
print("\\n".join(failures))
"""


def test_when_no_more_fits_what_was_there_stands_and_lines_stay_whole(tmp_path: Path) -> None:
    # A limit on the size of a file stops a write in the middle, as a full disk does.
    run = tmp_path / "run"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", FULL_DISK, str(run)], capture_output=True, text=True, env=environment, check=True
    )
    failures = done.stdout.splitlines()
    assert len(failures) == 5
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    assert all("disk is full" in line for line in failures)
    assert load_document(run)["status"] == "running"
    assert (run / "best/model_new.py").read_bytes() == b"good"
    assert not list((run / "snapshots").rglob(".*"))
    assert (run / "trajectory.jsonl").read_bytes() == (b"l" * 1500 + b"\n") * 2


def test_a_failed_replace_leaves_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "target").mkdir()
    with pytest.raises(DiskError):
        files.replace(tmp_path / "target", b"x")
    assert [path.name for path in tmp_path.iterdir()] == ["target"]
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] != 0
