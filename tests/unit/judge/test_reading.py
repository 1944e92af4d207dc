"""A workspace belongs to the model, and the judge that reads it may be root: games with what lies there."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from judging import HOME
from serving import MODEL, as_uid

from cuda_agent_judge.reading import MAX_DEPTH, MAX_ENTRIES, SourceFault, opened
from cuda_agent_judge.sources import read_submission
from cuda_agent_judge.submission import seal, workspace_notes

AS_ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="needs root, for files that are not the model's")
SECRET = b"what only root may read"


@pytest.fixture
def ground() -> Iterator[Path]:
    """A workspace of another user, beside a folder and a file of root's; where not root, all of it is one user's."""
    folder = Path(tempfile.mkdtemp(prefix="reading-"))
    folder.chmod(0o755)
    (folder / "workspace" / "kernels").mkdir(parents=True)
    (folder / "private").mkdir(mode=0o700)
    (folder / "private" / "a.cpp").write_bytes(SECRET)
    (folder / "private" / "a.cpp").chmod(0o600)
    (folder / "workspace" / "model_new.py").write_text("class ModelNew: pass\n")
    (folder / "workspace" / "kernels" / "fine.cpp").write_text("int fine;\n")
    _give(folder / "workspace")
    yield folder
    shutil.rmtree(folder)


def _give(top: Path) -> None:
    if os.geteuid() == 0:
        for folder, _, names in os.walk(top):
            for path in (Path(folder), *(Path(folder, name) for name in names)):
                if path.is_dir() or path.stat().st_nlink == 1:
                    os.chown(path, MODEL, MODEL, follow_symlinks=False)


def _link(name: str, target: str) -> Callable[[Path], None]:
    def put(ground: Path) -> None:
        place = ground / "workspace" / name
        if place.is_dir():
            shutil.rmtree(place)
        place.unlink(missing_ok=True)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(ground / target)

    return put


def _hard(name: str) -> Callable[[Path], None]:
    """A kernel without fs.protected_hardlinks lets anybody do this."""

    def put(ground: Path) -> None:
        (ground / "workspace" / name).unlink(missing_ok=True)
        os.link(ground / "private" / "a.cpp", ground / "workspace" / name)

    return put


def _file_for_folder(ground: Path) -> None:
    shutil.rmtree(ground / "workspace" / "kernels")
    (ground / "workspace" / "kernels").touch()


def _pipe_for_module(ground: Path) -> None:
    (ground / "workspace" / "model_new.py").unlink()
    os.mkfifo(ground / "workspace" / "model_new.py")


def _socket(ground: Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(ground / "workspace" / "kernels" / "s.cpp"))


def _sparse(ground: Path) -> None:
    with open(ground / "workspace" / "kernels" / "huge.cpp", "wb") as file:
        file.truncate(1 << 42)


def _pieces(ground: Path) -> None:
    for number in range(40):
        (ground / "workspace" / "kernels" / f"{number}.cpp").write_bytes(b"x" * (1 << 20))


def _many(ground: Path) -> None:
    for number in range(MAX_ENTRIES + 1):
        (ground / "workspace" / "kernels" / f".{number}").touch()


def _deep(ground: Path) -> None:
    (ground / "workspace" / "kernels" / "/".join("d" * (MAX_DEPTH + 2))).mkdir(parents=True)


def _named(name: bytes) -> Callable[[Path], None]:
    return lambda ground: Path(os.fsdecode(bytes(ground / "workspace" / "kernels") + b"/" + name)).touch()


GAMES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the module is a link": (_link("model_new.py", "private/a.cpp"), "model_new.py is a symbolic link"),
    "a source is a link": (_link("kernels/l.cpp", "private/a.cpp"), "kernels/l.cpp is a symbolic link"),
    "a link to nowhere": (_link("kernels/l.cpp", "nowhere"), "kernels/l.cpp is a symbolic link"),
    "kernels is a link": (_link("kernels", "private"), "kernels is no folder"),
    "a folder below is a link": (_link("kernels/sub", "private"), "kernels/sub is a symbolic link"),
    "the workspace is a link": (_link(".", "private"), "the workspace cannot be read"),
    "kernels is a file": (_file_for_folder, "kernels is no folder"),
    "a pipe": (lambda ground: os.mkfifo(ground / "workspace/kernels/p.cpp"), "kernels/p.cpp is no plain file"),
    "the module is a pipe": (_pipe_for_module, "model_new.py is no plain file"),
    "a socket": (_socket, "kernels/s.cpp is no plain file"),
    "a file of four terabytes": (_sparse, "more than 32 MiB"),
    "many files that are large together": (_pieces, "more than 32 MiB"),
    "more files than anybody writes": (_many, "more than 5000 files"),
    "folders without an end": (_deep, "lies too deep"),
    "a name that moves the cursor": (_named(b"\x1b[2Ja.cpp"), "cannot be printed"),
    "a name of two lines": (_named(b"a\nb.cpp"), "cannot be printed"),
    "a name that is no text": (_named(b"\xff.cpp"), "cannot be printed"),
}
ROOT_GAMES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the module is root's file by a hard link": (
        _hard("model_new.py"),
        "model_new.py cannot be read: Permission denied",
    ),
    "a source is root's file by a hard link": (
        _hard("kernels/h.cpp"),
        "kernels/h.cpp cannot be read: Permission denied",
    ),
    "a device": (
        lambda ground: os.mknod(ground / "workspace/kernels/d.cpp", 0o20666, os.makedev(1, 5)),
        "kernels/d.cpp is no plain file",
    ),
}


def _refused(ground: Path, said: str) -> None:
    into = ground / "copy"
    into.mkdir()
    with pytest.raises(SourceFault) as refusal:
        seal(ground / "workspace", into, needs_module=True)
    assert said in str(refusal.value)
    assert str(refusal.value).isprintable()
    assert list(into.iterdir()) == []


@pytest.mark.parametrize(("play", "said"), GAMES.values(), ids=GAMES.keys())
def test_a_game_is_refused_in_a_sentence(ground: Path, play: Callable[[Path], object], said: str) -> None:
    play(ground)
    with contextlib.suppress(FileNotFoundError):
        _give(ground / "workspace")
    _refused(ground, said)


@AS_ROOT
@pytest.mark.parametrize(("play", "said"), ROOT_GAMES.values(), ids=ROOT_GAMES.keys())
def test_a_game_for_root_s_rights_is_refused_too(ground: Path, play: Callable[[Path], object], said: str) -> None:
    play(ground)
    _refused(ground, said)


@AS_ROOT
def test_what_a_glance_takes_is_never_root_s(ground: Path) -> None:
    workspace, into = ground / "workspace", ground / "copy"
    into.mkdir()
    (ground / "template/utils").mkdir(parents=True)
    (ground / "template/utils/a.cpp").write_text("given\n")
    (ground / "model.py").write_text("given\n")
    (workspace / "utils").symlink_to(ground / "private")
    os.mkfifo(workspace / "model.py")
    os.link(ground / "private" / "a.cpp", workspace / "binding.cpp")
    seal(workspace, into, needs_module=True)
    assert sorted(path.name for path in into.iterdir()) == ["kernels", "model_new.py"]
    assert workspace_notes(workspace, ground, ground / "template") == []


@AS_ROOT
def test_a_workspace_that_its_owner_has_shut_is_still_read(ground: Path) -> None:
    (ground / "workspace").chmod(0o700)
    (ground / "workspace" / "model_new.py").chmod(0o600)
    assert sorted(read_submission(ground / "workspace").files) == ["kernels/fine.cpp", "model_new.py"]
    (ground / "workspace" / "model_new.py").chmod(0o000)
    with pytest.raises(SourceFault, match=r"model_new\.py cannot be read: Permission denied"):
        read_submission(ground / "workspace")


@AS_ROOT
def test_the_reader_has_its_own_rights_back_afterwards(ground: Path) -> None:
    before = (os.getresuid(), os.getresgid(), os.getgroups())
    read_submission(ground / "workspace")
    (ground / "workspace" / "model_new.py").unlink()
    os.mkfifo(ground / "workspace" / "model_new.py")
    with pytest.raises(SourceFault):
        read_submission(ground / "workspace")
    assert (os.getresuid(), os.getresgid(), os.getgroups()) == before


@AS_ROOT
def test_the_owner_can_neither_signal_nor_look_into_the_reader(ground: Path) -> None:
    reading, going = os.pipe(), os.pipe()
    pid = os.fork()
    if pid == 0:
        with opened(ground / "workspace"):
            os.write(reading[1], b"x")
            os.read(going[0], 1)
        os._exit(0)
    os.read(reading[0], 1)
    assert as_uid(MODEL, lambda: [_may(lambda: os.kill(pid, signal.SIGKILL)), _may(lambda: _look_into(pid))]) == [
        False,
        False,
    ]
    os.write(going[1], b"x")
    assert os.waitpid(pid, 0)[1] == 0


def _may(do: Callable[[], object]) -> bool:
    try:
        do()
    except PermissionError:
        return False
    return True


def _look_into(pid: int) -> None:
    os.close(os.open(f"/proc/{pid}/mem", os.O_RDONLY))


SWAP = """
import os, sys
os.chdir(sys.argv[1])
os.mkdir("spare")
os.symlink(sys.argv[2], "link")
print("going", flush=True)
while True:  # folder, nothing, link, nothing, folder ...
    os.rename("kernels", "away"); os.rename("link", "kernels")
    os.rename("kernels", "link"); os.rename("away", "kernels")
"""
GROW = """
import os, sys
os.chdir(sys.argv[1])
file = os.open("kernels/grows.cpp", os.O_CREAT | os.O_RDWR)
print("going", flush=True)
while True:  # from nothing to more than the limit and back
    os.ftruncate(file, 0)
    for size in range(0, 80 << 20, 8 << 20):
        os.ftruncate(file, size)
"""


@pytest.mark.parametrize("script", [SWAP, GROW], ids=["swaps folders", "grows a file"])
def test_a_workspace_that_changes_while_it_is_read(ground: Path, script: str) -> None:
    model = {"user": MODEL, "group": MODEL, "extra_groups": []} if os.geteuid() == 0 else {}
    line = ["/usr/bin/env", "python3", "-c", script, str(ground / "workspace"), str(ground / "private")]
    env = {"PATH": os.defpath if model else os.environ["PATH"]}
    with subprocess.Popen(line, stdout=subprocess.PIPE, env=env, **model) as other:  # type: ignore[call-overload]
        assert other.stdout.readline() == b"going\n"
        taken: set[str] = set()
        limit, reads = time.monotonic() + 60, 0
        while reads < 300 or ("model_new.py" not in taken and time.monotonic() < limit):
            reads += 1
            try:
                files = read_submission(ground / "workspace").files
            except SourceFault as refusal:
                taken.add(str(refusal))
                continue
            taken.update(files)
            assert SECRET not in files.values()
            assert sum(map(len, files.values())) <= 32 << 20
        other.kill()
    assert "model_new.py" in taken


def test_the_judge_refuses_such_a_workspace_as_a_compile_error(ground: Path) -> None:
    (ground / "session" / "operator").mkdir(parents=True)
    (ground / "session" / "operator" / "model.py").write_text("class Model: pass\n")
    (ground / "session" / "session.json").write_text("{}")
    os.mkfifo(ground / "workspace" / "kernels" / "p.cpp")
    places = ["--session", str(ground / "session"), "--workspace", str(ground / "workspace")]
    done = subprocess.run(
        [sys.executable, "-I", str(HOME), "compile", *places], capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stdout == "[FAIL] compile_error: kernels/p.cpp is no plain file: remove it\n"
