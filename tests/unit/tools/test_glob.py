import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.glob import Glob
from cuda_agent_tools.sandbox import SandboxLost
from cuda_agent_tools.tool import ToolError

Find = Callable[..., list[str]]


@pytest.fixture
def find(sandbox: LocalSandbox) -> Find:
    tool = Glob(sandbox)
    return lambda pattern, **more: tool.run({"pattern": pattern, **more}).text.split("\n")


def make(folder: Path, *names: str) -> None:
    """Make files, each newer than the one before."""
    for age, name in enumerate(names):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("")
        os.utime(folder / name, (1_700_000_000 + age, 1_700_000_000 + age))


def test_files_come_newest_first_and_relative_to_the_workspace(find: Find, workspace: Path) -> None:
    make(workspace, "kernels/old.cu", "kernels/new.cu", "other.py", "kernels/x.py")
    assert find("kernels/*.cu") == ["kernels/new.cu", "kernels/old.cu"]
    assert find("*.cu", path="kernels") == ["kernels/new.cu", "kernels/old.cu"]
    assert find("*.cu", path=str(workspace / "kernels")) == ["kernels/new.cu", "kernels/old.cu"]
    assert find(f"{workspace}/*.py") == ["other.py"]


def test_two_stars_are_any_number_of_directories(find: Find, workspace: Path) -> None:
    make(workspace, "a.cu", "k/b.cu", "k/l/m/c.cu", "k/l/d.h")
    assert sorted(find("**/*.cu")) == ["a.cu", "k/b.cu", "k/l/m/c.cu"]
    assert sorted(find("k/**/*.cu")) == ["k/b.cu", "k/l/m/c.cu"]
    assert sorted(find("k/**")) == ["k/b.cu", "k/l/d.h", "k/l/m/c.cu"]
    assert sorted(find("**/l/**/*.*")) == ["k/l/d.h", "k/l/m/c.cu"]


def test_question_marks_sets_and_literal_names(find: Find, workspace: Path) -> None:
    make(workspace, "a1.cu", "a2.cu", "a10.cu", "b1.cu")
    assert find("a?.cu") == ["a2.cu", "a1.cu"]
    assert find("[!a]1.cu") == ["b1.cu"]
    assert find("a10.cu") == ["a10.cu"]


def test_dots_must_be_asked_for(find: Find, workspace: Path) -> None:
    make(workspace, ".hidden/x.py", "x.py", ".y.py")
    assert find("**/*.py") == ["x.py"]
    assert find(".*.py") == [".y.py"]
    assert find(".hidden/*") == [".hidden/x.py"]


def test_files_outside_are_shown_with_their_whole_path(find: Find, tmp_path: Path) -> None:
    make(tmp_path / "outside", "a.h")
    assert find(f"{tmp_path}/outside/*.h") == [f"{tmp_path}/outside/a.h"]
    assert find("*.h", path="../outside") == ["../outside/a.h"]


def test_no_match_is_said(find: Find, workspace: Path) -> None:
    assert find("*.cu") == ["No file matches '*.cu'."]
    make(workspace, "kernels/a.cu")
    assert find("ker*") == ["No file matches 'ker*'.", "Directories that match: kernels/"]
    assert "Braces are not expanded" in find("*.{cu,h}")[1]


def test_loops_of_links_end(find: Find, workspace: Path) -> None:
    make(workspace, "a/b/c.cu")
    (workspace / "a/b/up").symlink_to("../..")
    (workspace / "self").symlink_to("self")
    (workspace / "here").symlink_to(".")
    assert find("**/*.cu") == ["a/b/c.cu"]
    assert find("here/a/**/*.cu") == ["here/a/b/c.cu"]


def test_links_to_files_and_to_nothing_are_listed(find: Find, workspace: Path) -> None:
    make(workspace, "a.cu")
    (workspace / "b.cu").symlink_to("a.cu")
    (workspace / "c.cu").symlink_to("nowhere")
    assert sorted(find("*.cu")) == ["a.cu", "b.cu", "c.cu"]


def test_many_matches_are_capped_with_a_note(find: Find, workspace: Path) -> None:
    make(workspace, *(f"f{number}.cu" for number in range(130)))
    lines = find("*.cu")
    assert lines[0] == "f129.cu"
    assert lines[99] == "f30.cu"
    assert lines[100:] == ["[the newest 100 of 130 files]"]


def test_a_huge_tree_is_given_up_with_a_note(find: Find, sandbox: LocalSandbox, workspace: Path) -> None:
    # 30 links to one folder of 12,000 names: more entries than are visited, without making them all.
    (workspace / "big").mkdir()
    sandbox.exec(["bash", "-c", "cd big && seq -f n%g 12000 | xargs touch"])
    for number in range(30):
        (workspace / f"link{number}").symlink_to("big")
    lines = find("link*/*.cu")
    assert lines[0].startswith("No file matches")
    assert "stopped after" in lines[1]


def test_odd_names_stay_on_one_line(find: Find, workspace: Path) -> None:
    (workspace / "two\nlines.cu").write_text("")
    (workspace / "é ü.cu").write_text("")
    with open(os.fsencode(workspace) + b"/\xff.cu", "w"):
        pass
    assert sorted(find("*.cu")) == sorted(["two\\x0alines.cu", "é ü.cu", "\ufffd.cu"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "`pattern` is missing"),
        ({"pattern": ""}, "`pattern` must not be empty"),
        ({"pattern": "*", "path": "nowhere"}, "`path` 'nowhere' is not a directory"),
        ({"pattern": "*", "glob": 1}, "no argument `glob`"),
        ({"pattern": "a\0"}, "NUL"),
    ],
)
def test_wrong_arguments_are_refused(sandbox: LocalSandbox, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        Glob(sandbox).run(arguments)


def test_a_lost_sandbox_is_no_empty_answer(find: Find, workspace: Path) -> None:
    shutil.rmtree(workspace)
    with pytest.raises(SandboxLost):
        find("*")
