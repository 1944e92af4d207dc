import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cuda_agent.sandbox.local import LocalSandbox
from cuda_agent_tools.multi_edit import MultiEdit
from cuda_agent_tools.tool import ToolError

AS_ROOT = os.geteuid() == 0
Edit = Callable[..., str]


@pytest.fixture
def edit(sandbox: LocalSandbox) -> Edit:
    tool = MultiEdit(sandbox)

    def run(path: str, *edits: tuple[object, ...]) -> str:
        keys = ("old_string", "new_string", "replace_all")
        listed = [dict(zip(keys, one, strict=False)) for one in edits]
        return tool.run({"file_path": path, "edits": listed}).text

    return run


def test_several_edits_are_made_in_order(edit: Edit, workspace: Path) -> None:
    (workspace / "f").write_text("a\nb\nc\n")
    assert edit("f", ("a", "x"), ("x\nb", "y"), ("c", "z")) == "Edited f: 3 replacements, at line 1, 2."
    assert (workspace / "f").read_text() == "y\nz\n"


def test_a_file_is_created_with_its_folders(edit: Edit, workspace: Path) -> None:
    assert (
        edit("kernels/new é.cu", ("", "int x;\nint y;\n"), ("int y", "long y")) == "Created kernels/new é.cu (2 lines)."
    )
    assert (workspace / "kernels/new é.cu").read_bytes() == b"int x;\nlong y;\n"


def test_an_absolute_path_is_taken(edit: Edit, workspace: Path) -> None:
    edit(str(workspace / "f"), ("", "x"))
    assert (workspace / "f").read_text() == "x"


def test_an_empty_file_may_be_filled(edit: Edit, workspace: Path) -> None:
    (workspace / "f").write_text("")
    edit("f", ("", "x"))
    assert (workspace / "f").read_text() == "x"


def test_text_may_be_removed(edit: Edit, workspace: Path) -> None:
    (workspace / "f").write_text("keep drop")
    edit("f", (" drop", ""))
    assert (workspace / "f").read_text() == "keep"


def test_every_occurrence_is_replaced_when_asked(edit: Edit, workspace: Path) -> None:
    (workspace / "f").write_text("a a\naa")
    assert edit("f", ("a", "b", True)) == "Edited f: 4 replacements, at line 1, 2."
    assert (workspace / "f").read_text() == "b b\nbb"


@pytest.mark.parametrize(
    ("edits", "message"),
    [
        ([("one", "x"), ("nope", "y")], "edit 2 of 2: old_string was not found"),
        ([("one", "x"), ("b", "y")], r"edit 2 of 2: old_string was found 2 times \(lines 2, 3\)"),
        ([("one", "x"), ("c", "c")], "edit 2 of 2: old_string and new_string are the same"),
        ([("one", "x"), ("x", "one")], "the edits leave f as it was"),
        ([("", "x")], "an empty old_string creates a file, but f exists"),
        ([("one", "x"), ("", "x")], "an empty old_string is for the first edit of a new file only"),
        ([("    deep", "x")], r"line 5 differs in white space only: '\\tdeep'"),
        ([("b\n    deep()", "x")], "the closest to its first line is line 2: 'b'"),
        ([("int total_of_al = 0;", "x")], "closest to its first line is line 6: 'int total_of_all = 0;'"),
    ],
)
def test_a_wrong_edit_changes_nothing_and_says_why(
    edit: Edit, workspace: Path, edits: list[tuple[str, str]], message: str
) -> None:
    (workspace / "f").write_text("one\nb\nb\nc\n\tdeep\nint total_of_all = 0;\n")
    before = (workspace / "f").read_bytes()
    with pytest.raises(ToolError, match=message) as raised:
        edit("f", *edits)
    assert str(raised.value).count("nothing was written") == 1
    assert (workspace / "f").read_bytes() == before


def test_a_file_that_is_not_there_is_said(edit: Edit, workspace: Path) -> None:
    with pytest.raises(ToolError, match="does not exist; to create it, make the first old_string empty"):
        edit("f", ("a", "b"))
    assert list(workspace.iterdir()) == []


def test_line_ends_do_not_hinder_and_are_kept(edit: Edit, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"a\r\nb\r\nc\r\n")
    edit("f", ("a\nb", "a\nB"))
    assert (workspace / "f").read_bytes() == b"a\r\nB\r\nc\r\n"


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"a\r\nb\nc\r\nd\n", "b\nc", "b\nC", b"a\r\nb\nC\r\nd\n"),
        (b"a\r\nb\nc\r\nd\n", "a\nb\nc\nd", "a\nx\nc\nd", b"a\r\nx\nc\r\nd\n"),
        (b"a\r\nb\r\n", "b", "b\nnew", b"a\r\nb\r\nnew\r\n"),
        (b"a\r\nb\r\n", "\nb", "\nB", b"a\r\nB\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\n", "", b"b\r\nc\r\n"),
        (b"a\nb\n", "a\nb", "a\n2\nb", b"a\n2\nb\n"),
        (b"a\r\nb\r\n", "a\r\nb", "a\r\nB", b"a\r\nB\r\n"),
        (b"a\nb\n", "a\r\nb", "a\r\nB", b"a\nB\n"),
        (b"a\r\nb\r\n", "a\r\n", "a\n", b"a\nb\r\n"),
        (b"a\rb\rc", "b", "B", b"a\rB\rc"),
        (b"x\r\ny\r\nx\r\n", "x\n", "z\n", b"z\r\ny\r\nz\r\n"),
        (b"a\r\nb\r\nc\r\n", "a\nb\nc", "a\nc", b"a\r\nc\r\n"),
    ],
)
def test_mixed_line_ends_stay_where_they_were(
    edit: Edit, workspace: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (workspace / "f").write_bytes(before)
    edit("f", (old, new, True))
    assert (workspace / "f").read_bytes() == after


@pytest.mark.parametrize(
    ("before", "old", "new", "after"),
    [
        (b"all:\n\tcc -o x\n\n\trm y\n", "cc", "g++", b"all:\n\tg++ -o x\n\n\trm y\n"),
        (b"\xef\xbb\xbfint x;\r\n", "int", "long", b"\xef\xbb\xbflong x;\r\n"),
        (b"// caf\xe9 \x80\nint x;", "int", "long", b"// caf\xe9 \x80\nlong x;"),
        (b"// caf\xe9\nint x;", "int", "\xfc", b"// caf\xe9\n\xfc x;"),
        ("é int".encode(), "int", "ü", "é ü".encode()),
        ("\ufeffint é".encode("utf-16-le"), "int", "long", "\ufefflong é".encode("utf-16-le")),
        (b"a \n  b\x0c\x00  \n\n\n", "b", "c", b"a \n  c\x0c\x00  \n\n\n"),
    ],
)
def test_tabs_marks_and_encodings_are_kept(
    edit: Edit, workspace: Path, before: bytes, old: str, new: str, after: bytes
) -> None:
    (workspace / "f").write_bytes(before)
    edit("f", (old, new))
    assert (workspace / "f").read_bytes() == after


def test_a_character_that_the_encoding_lacks_is_refused(edit: Edit, workspace: Path) -> None:
    (workspace / "f").write_bytes(b"caf\xe9")
    with pytest.raises(ToolError, match="latin-1, which has no '\u4e2d'"):
        edit("f", ("caf", "\u4e2d"))
    assert (workspace / "f").read_bytes() == b"caf\xe9"


def test_an_edited_file_is_newer_than_before_and_of_the_present(edit: Edit, workspace: Path) -> None:
    edit("f", ("", "0"))
    times = [(workspace / "f").stat().st_mtime_ns]
    for number in range(3):
        edit("f", (str(number), str(number + 1)))
        times.append((workspace / "f").stat().st_mtime_ns)
    assert times == sorted(set(times))
    assert times[-1] <= time.time_ns()


def test_mode_and_link_stay(edit: Edit, workspace: Path) -> None:
    (workspace / "run.sh").write_text("old")
    (workspace / "run.sh").chmod(0o751)
    (workspace / "link").symlink_to("run.sh")
    edit("link", ("old", "new"))
    assert (workspace / "run.sh").read_text() == "new"
    assert (workspace / "run.sh").stat().st_mode & 0o777 == 0o751
    assert (workspace / "link").is_symlink()


def test_what_cannot_be_edited_is_said(edit: Edit, workspace: Path) -> None:
    (workspace / "dir").mkdir()
    os.mkfifo(workspace / "pipe")
    (workspace / "loop").symlink_to("loop")
    with pytest.raises(ToolError, match="dir cannot be read: Is a directory"):
        edit("dir", ("a", "b"))
    with pytest.raises(ToolError, match="pipe cannot be read: not a regular file"):
        edit("pipe", ("a", "b"))
    with pytest.raises(ToolError, match="loop cannot be read: Too many levels"):
        edit("loop", ("a", "b"))
    with pytest.raises(ToolError, match="NUL"):
        edit("a\0b", ("a", "b"))


def test_a_file_without_permission_is_left_to_those_who_have_it(edit: Edit, workspace: Path) -> None:
    (workspace / "f").write_text("old")
    (workspace / "f").chmod(0o444)
    if AS_ROOT:
        edit("f", ("old", "new"))
        assert (workspace / "f").read_text() == "new"
    else:
        with pytest.raises(ToolError, match="f cannot be written: Permission denied"):
            edit("f", ("old", "new"))
        assert (workspace / "f").read_text() == "old"


def test_a_long_file_with_many_edits(edit: Edit, workspace: Path) -> None:
    lines = [f"line {number};\r\n" for number in range(20_000)]
    (workspace / "f").write_bytes("".join(lines).encode())
    edit("f", *((f"line {number};\n", f"row {number};\n") for number in range(0, 20_000, 1000)))
    expected = [line.replace("line", "row") if number % 1000 == 0 else line for number, line in enumerate(lines)]
    assert (workspace / "f").read_bytes() == "".join(expected).encode()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"edits": []}, "`file_path` is missing; the arguments are file_path, edits"),
        ({"file_path": "f", "edits": []}, "`edits` must not be empty"),
        ({"file_path": "f", "edits": [{"old_string": "a"}]}, r"`edits\[0\].new_string` is missing"),
        ({"file_path": "f", "edits": "a"}, "`edits` should be a valid list, got 'a'"),
        ({"file_path": "f", "edits": [{"old_string": "", "new_string": "", "x": 1}]}, r"no argument `edits\[0\].x`"),
    ],
)
def test_wrong_arguments_are_refused(sandbox: LocalSandbox, arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ToolError, match=message):
        MultiEdit(sandbox).run(arguments)


def test_edits_that_came_as_a_string_are_read(sandbox: LocalSandbox, workspace: Path) -> None:
    MultiEdit(sandbox).run({"file_path": "f", "edits": '[{"old_string": "", "new_string": "x"}]'})
    assert (workspace / "f").read_text() == "x"
