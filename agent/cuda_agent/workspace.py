"""The workspace as a tree: read whole at the end of a turn, and put back byte for byte.

Both are done by one command inside the sandbox (`sandbox/tree_scripts.py`), so that the host follows no path of the
model's. Contents are told apart by their hash and never by their time. The shell's state belongs to it: directory and
variables go back with the files.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast, get_args

from cuda_agent.errors import InfrastructureError
from cuda_agent.judging import MAX_SUBMISSION_BYTES, Submission, is_submission_file
from cuda_agent.sandbox.tree_scripts import CAPTURE, RESTORE
from cuda_agent.snapshots import Entry, Kind, Snapshots, Tree
from cuda_agent_tools.sandbox import ExecResult, Sandbox

MAX_SUBMISSION_FILES = 500
SHELL_FILE = "shell.state"
SHELL_STATE = f"/{SHELL_FILE}"
"""The shell's state in a tree: no name of the workspace begins with a slash."""


class WorkspaceError(InfrastructureError):
    """The workspace could not be read or put back."""


@dataclass(frozen=True)
class Bounds:
    """What is over them is named and not kept."""

    file_bytes: int = 8 << 20
    """Of one file that is no part of the submission."""
    all_bytes: int = 64 << 20
    """Of all files together; the submission comes first."""
    names: int = 200_000
    name_bytes: int = 32 << 20
    """Of all names together, as they are written down."""
    seconds: float = 30.0
    """Folders not reached by then."""


@dataclass(frozen=True)
class Captured:
    """The workspace at one moment, kept in the store."""

    submission: Submission
    snapshot: str
    changed: int
    removed: int
    skipped: tuple[str, ...]
    """Names of which the content is not kept, and why."""


class Workspace:
    """The workspace of one sandbox and the store it is kept in."""

    def __init__(
        self,
        sandbox: Sandbox,
        snapshots: Snapshots,
        *,
        python: str,
        bounds: Bounds = Bounds(),  # frozen
        moved: Callable[[bytes], bytes] = bytes,
    ) -> None:
        """`moved` turns the shell's state as it was kept into one that fits this sandbox's paths."""
        self._sandbox = sandbox
        self._snapshots = snapshots
        self._python = python
        self._bounds = bounds
        self._moved = moved
        self._state = {SHELL_STATE: f"{sandbox.state_dir}/{SHELL_FILE}"}
        self._submitted: dict[str, bytes] = {}

    @property
    def snapshots(self) -> Snapshots:
        """The store."""
        return self._snapshots

    def capture(self, turn: int) -> Captured:
        """Keep the workspace as it is now.

        Raises:
            WorkspaceError: the sandbox's Python could not read it.
            DiskError: there is no room for it.
            SandboxLost: the sandbox is gone.
        """
        tree = self._read()
        kept = self._snapshots.record(turn, tree)
        skipped = tuple(f"{_shown(name)} ({one.content})" for name, one in tree.items() if one.kind == "skipped")
        return Captured(self._submission(tree), kept.name, len(kept.changed), len(kept.removed), skipped)

    def is_empty(self) -> bool:
        """Say whether nothing is in the workspace."""
        return not any(name != "." and name not in self._state for name in self._read())

    def restore(self, snapshot: str) -> tuple[str, ...]:
        """Make the workspace what it was; return what could not be put back, a sentence each.

        Raises:
            WorkspaceError: the command inside failed as a whole.
            Damaged: the store does not hold it any more.
            SandboxLost: the sandbox is gone.
        """
        return self._put_back(self._read(), self._snapshots.find(snapshot))

    def restore_shell(self, snapshot: str) -> None:
        """Put back the shell's state alone, directory and variables, where there is none or it names former paths.

        Raises:
            Damaged, WorkspaceError, SandboxLost: as `restore`.
        """
        there = self._read().get(SHELL_STATE)
        kept = there or self._snapshots.find(snapshot).get(SHELL_STATE)
        if kept is None or kept.kind != "file":
            return
        data = self._snapshots.load(kept.content)
        if there is None or self._moved(data) != data:
            self._sandbox.write(self._state[SHELL_STATE], self._moved(data))

    def _read(self) -> dict[str, Entry]:
        bounds, (state,) = self._bounds, self._state.items()
        numbers = (bounds.file_bytes, bounds.all_bytes, bounds.names, bounds.name_bytes, int(1000 * bounds.seconds))
        known = {one.content for one in self._snapshots.tree.values() if one.kind == "file"}
        given = [*map(str, numbers), *state, *sorted(known)]
        result = self._run(CAPTURE, b"\0".join(text.encode("utf-8", "surrogateescape") for text in given))
        try:
            size = int.from_bytes(result.stdout[-8:], "big")
            fields = result.stdout[-8 - size : -8].split(b"\0")
            start = 1 + 2 * int(fields[0])
            known |= self._keep(result.stdout, fields[1:start])
            return dict(sorted(self._entry(one, known) for one in _tuples(fields[start:], 5)))
        except (ValueError, TypeError, IndexError) as error:
            raise WorkspaceError(f"The workspace could not be read: {_said(result) or error}.") from error

    def _keep(self, data: bytes, sent: Sequence[bytes]) -> set[str]:
        """Keep the contents that were sent and return their names."""
        start, kept = 0, set()
        for sha256, length in _tuples(sent, 2):
            size = int(length)
            if not 0 <= size <= self._bounds.all_bytes - start:
                raise ValueError("more bytes than were asked for")
            if self._snapshots.keep(data[start : start + size]) != sha256.decode():
                raise ValueError("a file's bytes are not those that were hashed")
            start += size
            kept.add(sha256.decode())
        return kept

    def _entry(self, fields: Sequence[bytes], known: set[str]) -> tuple[str, Entry]:
        """Read an entry. It may be the model's own: the command inside runs as the model's user, who can speak for it.

        Raises:
            ValueError: no workspace has such an entry.
        """
        name, kind, content, mode, size = (field.decode("utf-8", "surrogateescape") for field in fields)
        made = Entry(cast(Kind, kind), content, int(mode), int(size))
        sound = kind in get_args(Kind) and 0 <= made.mode <= 0o7777 and made.size >= 0
        there = name in self._state or _is_inside(name)
        if not sound or not there or (kind == "file" and content not in known):
            raise ValueError(f"the entry {_shown(name)} is none of a workspace")
        return name, made

    def _submission(self, tree: Tree) -> Submission:
        before, self._submitted = self._submitted, {}

        def load(sha256: str) -> bytes:
            data = self._submitted[sha256] = before.get(sha256) or self._snapshots.load(sha256)
            return data

        return _submission(tree, load)

    def _put_back(self, now: Tree, then: Tree) -> tuple[str, ...]:
        plan = _plan(now, then, self._state)
        contents = {key: self._content(then[name].content, key) for name, _, key, _ in plan["files"]}
        plan["sent"] = [(key, len(data)) for key, data in contents.items()]
        head = json.dumps(plan).encode()
        result = self._run(RESTORE, b"".join([len(head).to_bytes(8, "big"), head, *contents.values()]))
        try:
            failed = json.loads(result.stdout)
            lost = [f"{_shown(name)} could not be put back ({why})" for name, why in failed.items()]
        except (ValueError, AttributeError) as error:
            raise WorkspaceError(f"The workspace could not be put back: {_said(result) or error}.") from error
        return (*lost, *(f"{_shown(name)} was not kept ({then[name].content})" for name in plan["lost"]))

    def _run(self, script: str, stdin: bytes) -> ExecResult:
        bounds = self._bounds
        return self._sandbox.exec(
            [self._python, "-I", "-S", "-c", script],
            stdin=stdin,
            timeout_s=60.0 + 2 * bounds.seconds,
            max_bytes=2 * (bounds.all_bytes + 4 * bounds.name_bytes),  # half of it is the first part, half the last
        )

    def _content(self, sha256: str, key: str) -> bytes:
        data = self._snapshots.load(sha256)
        return self._moved(data) if key in self._state else data


def submission_of(snapshots: Snapshots, snapshot: str) -> Submission:
    """Return the submission in a snapshot.

    Raises:
        Damaged: the store does not hold it any more.
    """
    return _submission(snapshots.find(snapshot), snapshots.load)


def _submission(tree: Tree, load: Callable[[str], bytes]) -> Submission:
    files: dict[str, bytes] = {}
    left = MAX_SUBMISSION_BYTES
    for name, one in sorted(tree.items()):
        if one.kind != "file" or not is_submission_file(name) or not _utf8(name):
            continue
        if one.size <= left and len(files) < MAX_SUBMISSION_FILES:
            left -= one.size
            files[name] = load(one.content)
    return Submission(files)


def _tuples(fields: Sequence[bytes], size: int) -> Iterator[tuple[bytes, ...]]:
    """Yield the fields in tuples of this size; what is left over is a ValueError."""
    return zip(*[iter(fields)] * size, strict=True)


def _is_inside(name: str) -> bool:
    """Say whether a name leads to something in the workspace, and is the only one that leads there."""
    return name == "." or all(part not in ("", ".", "..") for part in name.split("/"))


def _plan(now: Tree, then: Tree, state: Mapping[str, str]) -> dict[str, Any]:
    """Say what must be done, in the order of the script: open folders, remove, make, write, set modes."""
    untouchable = [name for name, one in now.items() if one.kind == "skipped" and then.get(name) == one]
    changed = {name: one for name, one in then.items() if now.get(name) != one and one.kind != "skipped"}
    # A folder whose content could not be listed is left as it stands, with all that is or was in it.
    changed = {name: one for name, one in changed.items() if not _below(name, untouchable)}
    gone = [name for name in now if _replaced(name, now, then) and not _below(name, untouchable)]
    files = [
        (name, state.get(name, name), name if name in state else one.content, one.mode)
        for name, one in changed.items()
        if one.kind == "file"
    ]
    folders = [name for name, one in changed.items() if one.kind == "dir" and not _is_dir(now, name)]
    touched = {_parent(name) for name in (*changed, *gone) if name not in state and name != "."}
    opened = sorted(name for name in touched if _is_dir(now, name) and _is_dir(then, name))
    modes = {name: then[name].mode for name in (*opened, *(n for n, one in changed.items() if one.kind == "dir"))}
    return {
        "open": opened,
        "remove": [(name, state.get(name, name)) for name in _outermost(gone)],
        "folders": sorted(folders),
        "files": files,
        "links": [(name, one.content) for name, one in changed.items() if one.kind == "link"],
        "modes": sorted(modes.items(), key=lambda item: item[0].count("/"), reverse=True),
        "lost": [name for name, one in then.items() if one.kind == "skipped" and now.get(name) != one],
    }


def _replaced(name: str, now: Tree, then: Tree) -> bool:
    """Say whether a name must go before anything else can take its place."""
    if name == ".":
        return False
    one, target = now[name], then.get(name)
    if target is None:
        return True
    folders = one.kind == "dir", target.kind == "dir"
    return target.kind != "skipped" and (folders[0] != folders[1] or one.kind == "skipped")


def _is_dir(tree: Tree, name: str) -> bool:
    return name in tree and tree[name].kind == "dir"


def _parent(name: str) -> str:
    return name.rpartition("/")[0] or "."


def _below(name: str, folders: list[str]) -> bool:
    return any(folder == "." or name == folder or name.startswith(f"{folder}/") for folder in folders)


def _outermost(names: list[str]) -> list[str]:
    """Leave out what goes with the folder it is in."""
    gone = set(names)
    return [name for name in sorted(names) if _parent(name) not in gone]


def _utf8(name: str) -> bool:
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)


def _shown(name: str) -> str:
    return repr(name.encode("utf-8", "backslashreplace").decode())


def _said(result: ExecResult) -> str:
    if result.timed_out:
        return f"it took longer than {result.duration_s:.0f} s"
    return result.stderr.decode("utf-8", "replace").strip()[-400:].rstrip(".")
