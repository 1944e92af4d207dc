from pathlib import Path

import pytest

from cuda_agent.errors import OperatorError
from cuda_agent.operators import load

GOOD = "import torch\nclass Model(torch.nn.Module):\n    pass\ndef get_inputs():\n    return []\n"


def write(folder: Path, name: str, data: str | bytes) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data if isinstance(data, bytes) else data.encode())
    return file


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ("def f(:\n", ["syntax error", "line 1"]),
        ("x = 1\ny = (\n", ["syntax error", "line 2"]),
        (b"# caf\xe9\n" + GOOD.encode(), ["not UTF-8", "line 1"]),
        (b"x = 1\0\n", ["null bytes"]),
        ("def get_inputs():\n    return []\n", ["no `class Model`"]),
        ("class ModelNew: ...\ndef get_inputs(): ...\n", ["no `class Model`", "ModelNew"]),
        ("class Model: ...\n", ["no `get_inputs()`"]),
        ("class A:\n    class Model: ...\ndef get_inputs(): ...\n", ["no `class Model`"]),
        ("from .helper import f\n" + GOOD, ["relative import", "line 1"]),
        ("", ["no `class Model`"]),
        ("(" * 5000, ["my op.py"]),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_to_change(
    tmp_path: Path, data: str | bytes, words: list[str]
) -> None:
    file = write(tmp_path, "my op.py", data)
    with pytest.raises(OperatorError) as caught:
        load(file)
    message = str(caught.value)
    assert str(file) in message
    assert "\n" not in message
    for word in words:
        assert word in message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"none\.py' does not exist"):
        load(tmp_path / "none.py")


def test_a_folder_stands_for_its_model_py(tmp_path: Path) -> None:
    write(tmp_path, "größe 1/model.py", GOOD)
    operator = load(tmp_path / "größe 1")
    assert operator.name == "größe 1"
    assert operator.path == tmp_path / "größe 1" / "model.py"


def test_a_folder_without_model_py_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OperatorError, match=r"model\.py"):
        load(tmp_path)


def test_a_file_is_called_by_its_stem_and_travels_as_model_py(tmp_path: Path) -> None:
    operator = load(write(tmp_path, "softmax.py", GOOD))
    assert operator.name == "softmax"
    assert dict(operator.files) == {"model.py": GOOD.encode()}


def test_byte_order_mark_and_crlf_travel_unchanged_and_read_well(tmp_path: Path) -> None:
    data = b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode()
    operator = load(write(tmp_path, "model.py", data))
    assert operator.files["model.py"] == data
    assert operator.source == GOOD


@pytest.mark.parametrize(
    "source",
    [
        "from impl import Model, get_inputs\n",
        "from impl import *\n",
        "import impl\nModel = impl.Model\nget_inputs = lambda: []\n",
        "try:\n    from fast import Model\nexcept ImportError:\n    class Model: ...\n"
        "if True:\n    def get_inputs(): ...\n",
        "class Model: ...\nx: str = '\\d'\nasync def get_inputs(): ...\n",
    ],
)
def test_names_may_be_bound_in_any_way_at_module_level(tmp_path: Path, source: str) -> None:
    assert load(write(tmp_path, "model.py", source)).name == tmp_path.name


def test_modules_from_beside_it_travel_with_it_and_others_do_not(tmp_path: Path) -> None:
    write(tmp_path, "helper.py", "import deeper\nimport torch, os\n")
    write(tmp_path, "deeper.py", "import helper\n")
    write(tmp_path, "torch.py", "")
    write(tmp_path, "other.py", "")
    write(tmp_path, "package/__init__.py", "from package.a import x\n")
    write(tmp_path, "package/sub/b.py", "def f():\n    import lazy\n")
    write(tmp_path, "package/__pycache__/a.pyc", b"\0")
    write(tmp_path, "lazy.py", "")
    file = write(tmp_path, "model.py", "from helper import f\nimport package.a\nimport absent\n" + GOOD)
    operator = load(file)
    assert set(operator.files) == {
        "model.py",
        "helper.py",
        "deeper.py",
        "package/__init__.py",
        "package/sub/b.py",
        "lazy.py",
    }


def test_a_broken_sibling_is_named(tmp_path: Path) -> None:
    write(tmp_path, "helper.py", "def f(:\n")
    with pytest.raises(OperatorError, match=r"helper\.py' has a syntax error in line 1"):
        load(write(tmp_path, "model.py", "import helper\n" + GOOD))


def test_a_sibling_called_model_py_is_refused(tmp_path: Path) -> None:
    write(tmp_path, "model.py", "x = 1\n")
    with pytest.raises(OperatorError, match="rename"):
        load(write(tmp_path, "op.py", "import model\n" + GOOD))


def test_the_digest_follows_names_and_bytes(tmp_path: Path) -> None:
    first = load(write(tmp_path, "a/model.py", GOOD))
    same = load(write(tmp_path, "b/other.py", GOOD))
    write(tmp_path, "c/helper.py", "")
    more = load(write(tmp_path, "c/model.py", "import helper\n" + GOOD))
    assert first.sha256 == same.sha256 != more.sha256


def test_nothing_of_the_operator_runs_on_the_host(tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    load(write(tmp_path, "model.py", GOOD + f"open({str(mark)!r}, 'w')\n"))
    assert not mark.exists()
