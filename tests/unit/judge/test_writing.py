"""A file of the judge's is replaced whole, by whoever comes last, or not at all."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from judging import HOME

from cuda_agent_judge.output import write_whole

WRITER = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from cuda_agent_judge.session import Session
for number in range(200):
    Session(Path(sys.argv[2])).remember_baselines(sys.argv[3], {"of": sys.argv[3] * 5000})
"""


@pytest.mark.parametrize("mode", [0o600, 0o644])
def test_it_has_the_mode_it_was_given_whatever_the_umask_and_what_was_there(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "new folder" / "file"
    for data in (b"first", b"second"):
        before = os.umask(0o077)
        try:
            write_whole(file, data, mode=mode)
        finally:
            os.umask(before)
        assert file.read_bytes() == data
        assert file.stat().st_mode & 0o777 == mode
    assert list(file.parent.iterdir()) == [file]


def test_what_cannot_be_put_in_place_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "file").mkdir()
    with pytest.raises(IsADirectoryError):
        write_whole(tmp_path / "file", b"data")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_a_link_in_its_place_is_replaced_and_not_followed(tmp_path: Path) -> None:
    (tmp_path / "other").write_bytes(b"stays")
    (tmp_path / "file").symlink_to(tmp_path / "other")
    write_whole(tmp_path / "file", b"data")
    assert (tmp_path / "other").read_bytes() == b"stays"
    assert not (tmp_path / "file").is_symlink()


def test_two_that_write_the_same_file_leave_it_whole_at_every_moment(tmp_path: Path) -> None:
    writers = [
        subprocess.Popen([sys.executable, "-I", "-c", WRITER, str(HOME), str(tmp_path), name]) for name in ("a", "b")
    ]
    file = tmp_path / "baselines.json"
    while any(writer.poll() is None for writer in writers):
        if file.exists():
            assert json.loads(file.read_text())
    assert [writer.returncode for writer in writers] == [0, 0]
    assert [path.name for path in tmp_path.iterdir()] == ["baselines.json"]
