from pathlib import Path

import pytest

from cuda_agent.errors import ConfigError
from cuda_agent.runs.judged import submission_at


def test_a_folder_is_read_without_its_links(tmp_path: Path) -> None:
    (tmp_path / "kernels/deep").mkdir(parents=True)
    (tmp_path / "model_new.py").write_bytes(b"m")
    (tmp_path / "kernels/a.cu").write_bytes(b"a")
    (tmp_path / "kernels/deep/b.h").write_bytes(b"b")
    (tmp_path / "kernels/link.cu").symlink_to("/etc/passwd")
    (tmp_path / "notes.txt").write_bytes(b"n")
    assert submission_at(tmp_path).files == {"model_new.py": b"m", "kernels/a.cu": b"a", "kernels/deep/b.h": b"b"}


def test_a_file_of_any_name_is_the_model(tmp_path: Path) -> None:
    (tmp_path / "answer.py").write_bytes(b"m")
    (tmp_path / "kernels").mkdir()
    (tmp_path / "kernels/a.cu").write_bytes(b"a")
    assert submission_at(tmp_path / "answer.py").files == {"model_new.py": b"m"}


def test_a_folder_without_a_model_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no model_new\.py; name a folder"):
        submission_at(tmp_path)
