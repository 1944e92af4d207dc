"""A workspace is read whole and put back byte for byte, in the real local sandbox and whatever is planted in it."""

import os
import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from cuda_agent.judging import MAX_SUBMISSION_BYTES
from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent.snapshots import Snapshots
from cuda_agent.workspace import Bounds, Workspace, submission_of

LARGE = Bounds().file_bytes
ODD = os.fsdecode(b"caf\xe9 \xff\n")


class Place:
    """A workspace with its sandbox and store."""

    def __init__(self, sandbox: LocalSandbox, store: Path) -> None:
        self.sandbox = sandbox
        self.root = Path(sandbox.workspace)
        self.state = Path(sandbox.state_dir) / "shell.state"
        self.snapshots = Snapshots(store)
        self.workspace = Workspace(sandbox, self.snapshots, python=sandbox.python)

    def write(self, name: str, data: bytes = b"x", mode: int = 0o644) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        path.chmod(mode)
        return path

    def picture(self) -> dict[str, tuple[object, ...]]:
        """Everything that must come back: kinds, modes, bytes, targets."""
        found: dict[str, tuple[object, ...]] = {}
        for path in [self.root, *self.root.rglob("*")]:
            about = path.lstat()
            content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else b""
            found[str(path.relative_to(self.root))] = (stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode), content)
        return found


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = LocalSandbox(workspace=tmp_path / "a workspace", state_dir=tmp_path / "state", python=Path(sys.executable))
    with made:
        yield Place(made, tmp_path / "snapshots")


def furnish(place: Place) -> None:
    """Some of everything."""
    place.write("model_new.py", b"m\r\n")
    place.write("kernels/a.cpp", bytes(range(256)))
    place.write("kernels/deep/er/b.h", b"")
    place.write("run.sh", b"#!/bin/sh\n", 0o755)
    place.write("locked/file", b"l", 0o400)
    place.write(ODD, b"odd")
    (place.root / "empty/inner").mkdir(parents=True)
    (place.root / "link").symlink_to("/etc/passwd")
    (place.root / "loop").symlink_to(".")
    (place.root / "dangling").symlink_to("nowhere")
    (place.root / "locked").chmod(0o555)


def replace_all(place: Place) -> None:
    """Every kind in the place of every other, and what must go."""
    shutil.rmtree(place.root / "kernels")
    (place.root / "kernels").symlink_to("/tmp")
    (place.root / "model_new.py").unlink()
    place.write("model_new.py/inner", b"a folder now")
    (place.root / "link").unlink()
    place.write("link", b"a file now")
    (place.root / "run.sh").unlink()
    (place.root / "run.sh").symlink_to("link")
    (place.root / "empty/inner").rmdir()
    place.write("extra/deep/er", b"e").parent.chmod(0o555)
    os.mkfifo(place.root / "pipe")
    (place.root / "locked").chmod(0o755)
    (place.root / "locked/file").unlink()


def test_what_was_replaced_removed_and_added_is_as_it_was(place: Place) -> None:
    furnish(place)
    before = place.picture()
    first = place.workspace.capture(0)
    replace_all(place)
    after = place.workspace.capture(1)
    changed = place.picture
    assert place.workspace.restore(first.snapshot) == ()
    assert place.picture() == before
    assert place.workspace.capture(2).snapshot == first.snapshot
    place.workspace.restore(after.snapshot)
    assert changed().keys() - {"pipe"} == {*place.picture()} - {"pipe"}
    assert (place.root / "kernels").readlink() == Path("/tmp")


def test_nothing_is_written_or_removed_through_a_link(place: Place, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/a.cpp").write_bytes(b"mine")
    place.write("kernels/a.cpp", b"then")
    first = place.workspace.capture(0)
    shutil.rmtree(place.root / "kernels")
    (place.root / "kernels").symlink_to(tmp_path / "outside")
    now = place.workspace.capture(1)
    assert now.submission.files == {}
    place.workspace.restore(first.snapshot)
    assert (tmp_path / "outside/a.cpp").read_bytes() == b"mine"
    assert not (place.root / "kernels").is_symlink()
    assert (place.root / "kernels/a.cpp").read_bytes() == b"then"


PLANTED: dict[str, Callable[[Place], object]] = {
    ".gitignore": lambda place: place.write(".gitignore", b"*\n!.gitignore\n"),
    ".gitattributes": lambda place: place.write(".gitattributes", b"* text eol=crlf ident export-ignore filter=x\n"),
    "nested .git": lambda place: place.write(".git/config", b"[core]\n\tworktree = /\n\tfsmonitor = touch /tmp/x\n"),
    ".git file": lambda place: place.write(".git", b"gitdir: /etc\n"),
    "submodule": lambda place: (place.write("sub/.git", b"gitdir: ../.git"), place.write("sub/k.cpp", b"$Id$\r\n")),
    "modules of its own": lambda place: [place.write(f"{name}.py", b"raise SystemExit(9)") for name in ("json", "os")],
}


@pytest.mark.parametrize("kind", PLANTED)
def test_what_is_planted_for_other_programs_hides_and_rewrites_nothing(place: Place, kind: str) -> None:
    place.write("kernels/a.cpp", b"one\r\ntwo\n$Id$\n")
    PLANTED[kind](place)
    before = place.picture()
    first = place.workspace.capture(0)
    for path in [*place.root.iterdir()]:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert place.workspace.is_empty()
    assert place.workspace.restore(first.snapshot) == ()
    assert place.picture() == before


@pytest.mark.parametrize("ahead_s", [-1000, 0, 5000])
def test_a_file_that_is_put_back_is_newer_than_what_it_replaces(place: Place, ahead_s: int) -> None:
    file = place.write("kernels/a.cpp", b"then")
    same = place.write("kernels/same.cpp", b"same")
    first = place.workspace.capture(0)
    file.write_bytes(b"now")
    when = file.stat().st_mtime + ahead_s
    os.utime(file, (when, when))
    untouched, before = same.stat().st_mtime_ns, file.stat().st_mtime_ns
    place.workspace.restore(first.snapshot)
    assert file.read_bytes() == b"then"
    assert file.stat().st_mtime_ns > before
    assert same.stat().st_mtime_ns == untouched


def test_an_edit_that_keeps_size_and_time_is_seen(place: Place) -> None:
    file = place.write("kernels/a.cpp", b"then")
    first, times = place.workspace.capture(0), file.stat()
    file.write_bytes(b"nows")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert place.workspace.capture(1).snapshot != first.snapshot


def test_the_shells_directory_and_variables_go_back_too(place: Place) -> None:
    place.state.write_bytes(b"cd -- /a\n")
    first = place.workspace.capture(0)
    place.state.write_bytes(b"cd -- /b\n")
    place.workspace.capture(1)
    place.workspace.restore(first.snapshot)
    assert place.state.read_bytes() == b"cd -- /a\n"
    place.state.unlink()
    place.write("kept", b"here")
    place.workspace.restore_shell(first.snapshot)
    assert place.state.read_bytes() == b"cd -- /a\n"
    assert (place.root / "kept").exists()


def test_a_file_in_the_place_of_the_state_is_not_taken_for_it(place: Place) -> None:
    place.write("shell.state", b"the workspace's own")
    first = place.workspace.capture(0)
    place.state.write_bytes(b"the shell's")
    place.workspace.restore(first.snapshot)
    assert not place.state.exists()
    assert (place.root / "shell.state").read_bytes() == b"the workspace's own"


def test_what_is_too_large_or_special_is_named_and_left_as_it_is(place: Place) -> None:
    place.write("weights.bin", b"w" * (LARGE + 1))
    os.mkfifo(place.root / "pipe")
    first = place.workspace.capture(0)
    assert first.skipped == ("'pipe' (a special file)", "'weights.bin' (too large)")
    place.write("model_new.py")
    assert place.workspace.restore(first.snapshot) == ()
    assert (place.root / "weights.bin").stat().st_size == LARGE + 1
    assert (place.root / "pipe").is_fifo()
    (place.root / "weights.bin").unlink()
    assert place.workspace.restore(first.snapshot) == ("'weights.bin' was not kept (too large)",)


def test_a_large_file_of_the_submission_is_kept_all_the_same(place: Place) -> None:
    place.write("kernels/table.h", b"t" * (LARGE + 1))
    assert len(place.workspace.capture(0).submission.files["kernels/table.h"]) == LARGE + 1


def test_the_submission_is_read_without_links_and_other_files(place: Place, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("host")
    wanted = ("kernels/a.cpp", "kernels/deep/b.h", "model_new.py")
    for name in (*wanted, "binding.cpp", "notes.txt", f"kernels/{ODD}"):
        place.write(name, name.encode("utf-8", "surrogateescape"))
    (place.root / "kernels/link.cpp").symlink_to(tmp_path / "secret")
    place.write("kernels/big.cpp", b"x" * (MAX_SUBMISSION_BYTES + 1))
    found = place.workspace.capture(0)
    assert dict(found.submission.files) == {name: name.encode() for name in wanted}
    assert submission_of(place.snapshots, found.snapshot) == found.submission


def test_a_tree_deeper_than_a_path_may_be_is_no_crash(place: Place) -> None:
    place.write("model_new.py", b"m")
    made = "import os\nfor n in range(60):\n os.mkdir('d' * 100)\n os.chdir('d' * 100)\n"
    assert place.sandbox.exec([sys.executable, "-c", made]).exit_code == 0
    found = place.workspace.capture(0)
    assert found.submission.exists
    assert found.skipped[0].endswith("(unreadable: File name too long)")


@pytest.mark.parametrize("bounds", [Bounds(all_bytes=100, names=30), Bounds(all_bytes=100, name_bytes=4000)])
def test_bounds_fall_on_the_rest_and_not_on_the_submission(place: Place, bounds: Bounds) -> None:
    place.workspace = Workspace(place.sandbox, place.snapshots, python=place.sandbox.python, bounds=bounds)
    place.write("kernels/a.cpp", b"k" * 60)
    place.write("model_new.py", b"m" * 20)
    place.write("a_first", b"f" * 50)
    for number in range(40):
        place.write(f"many/{number}")
    first = place.workspace.capture(0)
    assert set(first.submission.files) == {"kernels/a.cpp", "model_new.py"}
    assert {name.split("'")[1] for name in first.skipped} == {"a_first", "many"}
    place.write("kernels/a.cpp", b"o" * 60)
    assert place.workspace.restore(first.snapshot) == ()
    assert len(list((place.root / "many").iterdir())) == 40
    assert (place.root / "kernels/a.cpp").read_bytes() == b"k" * 60
