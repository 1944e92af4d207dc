import os
from pathlib import Path

import pytest

from cuda_agent.batch.jobs import plan
from cuda_agent.batch.listing import Found, Selection, find
from cuda_agent.errors import ConfigError

OPERATOR = "import torch\nclass Model(torch.nn.Module):\n    pass\ndef get_inputs():\n    return []\n"


def lay(root: Path, *names: str, text: str = OPERATOR) -> None:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def keys(source: Path, **selection: object) -> list[str]:
    return [one.key for one in find(source, Selection(**selection)).operators]  # type: ignore[arg-type]


@pytest.fixture
def bench(tmp_path: Path) -> Path:
    """Laid out as KernelBench is."""
    lay(tmp_path, "level1/1_Square_.py", "level1/2_Standard_.py", "level1/10_Batched.py", "level2/1_Conv2D_ReLU.py")
    lay(tmp_path, "level3/1_MLP.py")
    return tmp_path


def test_a_kernelbench_folder_is_listed_in_natural_order_with_its_levels(bench: Path) -> None:
    found = find(bench, Selection()).operators
    assert [one.key for one in found] == [
        "level1/1_Square_.py", "level1/2_Standard_.py", "level1/10_Batched.py", "level2/1_Conv2D_ReLU.py",
        "level3/1_MLP.py",
    ]  # fmt: skip
    assert [one.level for one in found] == ["1", "1", "1", "2", "3"]
    assert [one.level for one in find(bench / "level2", Selection()).operators] == ["2"]


@pytest.mark.parametrize(
    ("selection", "wanted"),
    [
        ({"levels": ("2", "3")}, ["level2/1_Conv2D_ReLU.py", "level3/1_MLP.py"]),
        ({"limit": 2}, ["level1/1_Square_.py", "level1/2_Standard_.py"]),
        ({"filters": ("1_*",), "limit": 2}, ["level1/1_Square_.py", "level2/1_Conv2D_ReLU.py"]),
        ({"filters": ("Batched", "MLP")}, ["level1/10_Batched.py", "level3/1_MLP.py"]),
        ({"filters": ("level1/[12]_*",)}, ["level1/1_Square_.py", "level1/2_Standard_.py"]),
    ],
)
def test_a_part_of_them_is_chosen(bench: Path, selection: dict[str, object], wanted: list[str]) -> None:
    assert keys(bench, **selection) == wanted


def test_folders_with_a_model_py_are_operators_and_nothing_below_them_is(tmp_path: Path) -> None:
    lay(
        tmp_path,
        "gelu/model.py",
        "gelu/helper.py",
        "gelu/model_new.py",
        "gelu/more/model.py",
        "deep/in/softmax/model.py",
    )
    found = find(tmp_path, Selection()).operators
    assert [(one.name, one.key) for one in found] == [
        ("softmax", "deep/in/softmax/model.py"), ("gelu", "gelu/model.py")
    ]  # fmt: skip


def test_what_is_plainly_no_operator_is_left_out_and_said_but_a_broken_file_is_not(tmp_path: Path) -> None:
    lay(tmp_path, "op.py")
    lay(tmp_path, "shared.py", text="def f(x):\n    return x\n")
    lay(tmp_path, "broken.py", text="class Model(:\n")
    lay(tmp_path, "half.py", text="class Model:\n    pass\n")
    lay(tmp_path, "brought.py", text="from shared import *\n")
    lay(tmp_path, ".hidden/op.py", "__pycache__/op.py", "model_new.py")
    listing = find(tmp_path, Selection())
    assert [one.key for one in listing.operators] == ["broken.py", "brought.py", "half.py", "op.py"]
    assert listing.left_out == ("shared.py",)


def test_a_list_names_files_and_folders_beside_itself_and_each_counts_once(tmp_path: Path) -> None:
    lay(tmp_path, "ops/a.py", "ops/b/model.py")
    (tmp_path / "list.txt").write_text("# chosen\n\nops/b\nops/a.py\nops/../ops/a.py\nops/absent.py\n")
    for source in (tmp_path / "list.txt", Path(f"@{tmp_path}/list.txt")):
        found = find(source, Selection()).operators
        assert [one.key for one in found] == ["ops/b/model.py", "ops/a.py", "ops/absent.py"]
        assert found[2].sha256 == ""  # its run will say that it is not there


@pytest.mark.parametrize("document", ["run.json", "batch.json"])
def test_runs_and_batches_are_passed_over_with_the_operators_in_them(tmp_path: Path, document: str) -> None:
    lay(tmp_path, "a.py", "runs/one/operator/model.py", "runs/one/workspace/model.py")
    (tmp_path / "runs/one" / document).write_text("{}")
    assert keys(tmp_path) == ["a.py"]


def test_nobody_waits_for_a_pipe_that_is_named_as_an_operator_is(tmp_path: Path) -> None:
    lay(tmp_path, "ops/a.py")
    os.mkfifo(tmp_path / "ops/pipe.py")
    assert [(one.key, bool(one.sha256)) for one in find(tmp_path / "ops", Selection()).operators] == [
        ("a.py", True), ("pipe.py", False)
    ]  # fmt: skip


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    lay(tmp_path, "ops/a.py")
    (tmp_path / "ops/again").symlink_to(tmp_path)
    assert keys(tmp_path) == ["ops/a.py"]


@pytest.mark.parametrize(
    ("source", "selection", "words"),
    [
        ("absent", {}, "does not exist"),
        ("empty", {}, "holds no operator"),
        ("ops", {"filters": ("zzz",)}, "--filter and --level leave none"),
        ("@absent.txt", {}, "cannot be read"),
    ],
)
def test_a_source_without_operators_is_one_sentence(
    tmp_path: Path, source: str, selection: dict[str, object], words: str
) -> None:
    (tmp_path / "empty").mkdir()
    lay(tmp_path, "ops/a.py")
    path = Path(f"@{tmp_path}/{source[1:]}") if source.startswith("@") else tmp_path / source
    with pytest.raises(ConfigError, match=words):
        keys(path, **selection)


def found(name: str, key: str) -> Found:
    return Found(name, key, Path("/x", key), "", "sha")


def test_operators_of_the_same_name_get_folders_of_their_own() -> None:
    listed = [found("relu", "a/relu.py"), found("relu", "b/relu.py"), found("ReLU", "b/c/relu.py"),
              found("relu", "c/b/relu.py"), found("../../up", "up.py"), found("b-relu", "b-relu.py")]  # fmt: skip
    names = [job.name for job in plan(listed, ["builtin"])]
    assert len({name.casefold() for name in names}) == len(names)
    assert all("/" not in name and not name.startswith(".") for name in names)
    assert names[:2] == ["relu", "b-relu"]


def test_several_models_get_folders_of_their_own() -> None:
    names = [
        job.name for job in plan([found("relu", "relu.py")], ["builtin", "vendor/some:model", "vendor/some/model"])
    ]
    assert names == ["relu--builtin", "relu--vendor_some_model", "relu--builtin-2"] or len(set(names)) == 3
