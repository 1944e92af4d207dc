"""The store: what comes back, what a crash may do to it, and what it costs on disk."""

import random
from pathlib import Path

import pytest

from cuda_agent.snapshots import Damaged, Entry, Snapshots

ODD = "na\udcffme\nwith\u2028 everything"


def tree(store: Snapshots, **files: str) -> dict[str, Entry]:
    """A tree of these files, kept."""
    return {name: Entry("file", store.keep(text.encode()), 0o644, len(text)) for name, text in files.items()}


def three(folder: Path) -> tuple[Snapshots, list[str]]:
    """A store of three turns, and their names."""
    store = Snapshots(folder)
    names = [
        store.record(0, tree(store, a="1", b="same")).name,
        store.record(1, {**tree(store, a="2", b="same"), ODD: Entry("link", "/x\udcfe", 0o777, 0)}).name,
        store.record(2, tree(store, b="same")).name,
    ]
    return store, names


def test_every_tree_comes_back_in_another_process(tmp_path: Path) -> None:
    store, names = three(tmp_path)
    store.close()
    again = Snapshots(tmp_path)
    assert again.name == names[2]
    assert [sorted(again.find(name)) for name in names] == [["a", "b"], ["a", "b", ODD], ["b"]]
    assert again.load(again.find(names[1])["a"].content) == b"2"
    assert again.find(names[1])[ODD].content == "/x\udcfe"
    assert len(list((tmp_path / "objects").iterdir())) == 3


def test_a_turn_without_a_change_costs_nothing_and_has_the_name_of_the_one_before(tmp_path: Path) -> None:
    store, names = three(tmp_path)
    before = (tmp_path / "turns.jsonl").read_bytes()
    kept = store.record(3, store.find(names[2]))
    assert (kept.name, kept.changed, kept.removed) == (names[2], (), ())
    assert (tmp_path / "turns.jsonl").read_bytes() == before


def test_after_going_back_the_next_turn_differs_from_the_one_gone_back_to(tmp_path: Path) -> None:
    store, names = three(tmp_path)
    store.reset(0)
    assert store.name == names[0]
    kept = store.record(1, tree(store, a="1", b="new"))
    assert (kept.changed, kept.removed) == (("b",), ())
    again = Snapshots(tmp_path)
    assert again.name == kept.name
    assert again.find(names[1])["a"] == store.find(names[1])["a"]  # what was gone back over is still there


@pytest.mark.parametrize("cut", [1, 2, 40])
@pytest.mark.parametrize("torn", [b"", b"\0" * 300])
def test_a_torn_end_is_dropped_and_written_over(tmp_path: Path, cut: int, torn: bytes) -> None:
    _, names = three(tmp_path)
    log = tmp_path / "turns.jsonl"
    log.write_bytes(log.read_bytes()[:-cut] + torn)
    again = Snapshots(tmp_path)
    assert again.name == names[2 if cut == 1 else 1]
    assert len(again.notices) == (cut > 1 or bool(torn))
    again.record(3, tree(again, c="3"))
    assert sorted(Snapshots(tmp_path).tree) == ["c"]


@pytest.mark.parametrize(
    "damage", [b"\0" * 20, b"{}", b'{"schema": 1, "turn": 1, "tree": "", "changed": {}, "removed": []}']
)
def test_damage_before_the_end_is_refused_with_its_line(tmp_path: Path, damage: bytes) -> None:
    three(tmp_path)
    lines = (tmp_path / "turns.jsonl").read_bytes().splitlines()
    (tmp_path / "turns.jsonl").write_bytes(b"\n".join([lines[0], damage, lines[2], b""]))
    with pytest.raises(Damaged, match="line 2"):
        Snapshots(tmp_path)


@pytest.mark.parametrize("damage", [b"", b"nonsense", None])
def test_an_object_that_is_not_what_its_name_says_is_refused(tmp_path: Path, damage: bytes | None) -> None:
    store, names = three(tmp_path)
    sha256 = store.find(names[0])["b"].content
    file = tmp_path / "objects" / sha256
    if damage is None:
        file.write_bytes((tmp_path / "objects" / store.find(names[0])["a"].content).read_bytes())
    else:
        file.write_bytes(damage)
    with pytest.raises(Damaged, match=sha256[:12]):
        store.load(sha256)


def test_a_name_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Damaged, match="holds no snapshot"):
        Snapshots(tmp_path).find("0" * 64)


def test_two_hundred_turns_of_small_edits_take_less_than_a_megabyte(tmp_path: Path) -> None:
    draw = random.Random(1)
    source = [f"  y[{n}] = x[{n}] * {draw.random():.6f}f;  // line {n}" for n in range(120)]
    files = {"model_new.py": "import torch\n" * 40, "kernels/k_binding.cpp": "// binding\n" * 60}
    with Snapshots(tmp_path) as store:
        for turn in range(201):
            source[draw.randrange(120)] = f"  y[{turn}] = x[{turn}] * {draw.random():.6f}f;"
            files["kernels/k.cpp"] = "\n".join(source)
            entries = {name: Entry("file", store.keep(text.encode()), 0o644, len(text)) for name, text in files.items()}
            store.record(turn, entries)
    found = [path.stat() for path in tmp_path.rglob("*")]
    assert sum(about.st_size for about in found) < 1_000_000
    assert sum(about.st_blocks * 512 for about in found) < 1_000_000
