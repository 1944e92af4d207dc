"""What the workspace held at the end of each turn: a content-addressed store on the host, outside the sandbox.

objects/<sha256> (zlib, written once, checked when read) · turns.jsonl (a line for each turn that changed something: a
delta against the tree before it, or a reset to an earlier turn). Not git: its ignore and attribute files are the
model's to plant.
"""

import hashlib
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from cuda_agent.errors import ConfigError
from cuda_agent.files import LineFile, replace, whole_lines, writing

SCHEMA = 1
LOG = "turns.jsonl"
Kind = Literal["file", "dir", "link", "skipped"]


@dataclass(frozen=True)
class Entry:
    """One name of a tree."""

    kind: Kind
    """`skipped`: it is there, but its content is not kept."""
    content: str
    """SHA-256 of a file, target of a link, why something is skipped."""
    mode: int
    size: int
    """Bytes of a file, kept or not."""

    @property
    def fields(self) -> tuple[str, str, int, int]:
        """The entry as it is written."""
        return (self.kind, self.content, self.mode, self.size)


Tree = Mapping[str, Entry]
"""By POSIX name relative to the workspace, `.` for the workspace itself; names that begin with / are the tools' state.

Names that are not UTF-8 carry their bytes as lone surrogates.
"""


@dataclass(frozen=True)
class Kept:
    """A tree that is in the store."""

    name: str
    """SHA-256 over the tree: what events call it."""
    changed: tuple[str, ...]
    removed: tuple[str, ...]


class Damaged(ConfigError):
    """The store is not as it was written."""


@dataclass(frozen=True)
class _Delta:
    """One line of the file."""

    turn: int
    name: str
    before: int | None
    """The delta that this one is against."""
    changed: Mapping[str, Entry]
    removed: Sequence[str]


class Snapshots:
    """The store of one run."""

    def __init__(self, folder: Path) -> None:
        """Open or begin the store in `folder`.

        Raises:
            Damaged: a line before the last one cannot be read.
            DiskError: the folder cannot be written.
        """
        self.folder = folder
        self.notices: list[str] = []
        self._deltas: list[_Delta] = []
        self._newest: int | None = None
        self._tree: dict[str, Entry] = {}
        self._file: LineFile | None = None
        self._read()

    @property
    def tree(self) -> Tree:
        """The newest tree."""
        return self._tree

    @property
    def name(self) -> str:
        """The name of the newest tree; "" where there is none."""
        return "" if self._newest is None else self._deltas[self._newest].name

    def find(self, name: str) -> Tree:
        """Return the tree of this name.

        Raises:
            Damaged: there is none.
        """
        for number, delta in enumerate(self._deltas):
            if delta.name == name:
                return self._folded(number)
        raise Damaged(f"{str(self.folder)!r} holds no snapshot {name[:12]!r}; restore the folder from a copy.")

    def keep(self, data: bytes) -> str:
        """Keep these bytes and return their SHA-256.

        Raises:
            DiskError: they could not be written.
        """
        sha256 = hashlib.sha256(data).hexdigest()
        target = self._object(sha256)
        if not target.exists():
            replace(target, zlib.compress(data, 6), durable=False)
        return sha256

    def load(self, sha256: str) -> bytes:
        """Return the bytes of this SHA-256.

        Raises:
            Damaged: they are not there or not the same any more.
        """
        try:
            data = zlib.decompress(self._object(sha256).read_bytes())
        except (OSError, zlib.error) as error:
            raise Damaged(
                f"The snapshot object {sha256[:12]} cannot be read ({error}); restore it from a copy."
            ) from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Damaged(
                f"The snapshot object {sha256[:12]} in {str(self.folder)!r} is damaged; restore it from a copy."
            )
        return data

    def record(self, turn: int, tree: Tree) -> Kept:
        """Note the tree at the end of a turn; its objects are in the store already.

        Raises:
            DiskError: the line could not be written.
        """
        changed = {name: entry for name, entry in tree.items() if self._tree.get(name) != entry}
        removed = sorted(self._tree.keys() - tree.keys())
        if self._newest is None or changed or removed:
            delta = _Delta(turn, tree_name(tree), self._newest, changed, removed)
            written = {name: entry.fields for name, entry in sorted(changed.items())}
            self._append({"turn": turn, "tree": delta.name, "changed": written, "removed": removed})
            self._add(delta, dict(tree))
        return Kept(self.name, tuple(sorted(changed)), tuple(removed))

    def reset(self, turn: int) -> None:
        """Go back to the end of `turn`: the next delta is against the tree there.

        Raises:
            DiskError: the line could not be written.
        """
        self._append({"reset": turn})
        self._forget_after(turn)

    def close(self) -> None:
        """Close the file; closing twice is fine."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _object(self, sha256: str) -> Path:
        return self.folder / "objects" / sha256

    def _append(self, fields: Mapping[str, Any]) -> None:
        if self._file is None:
            with writing(self.folder):
                self.folder.mkdir(parents=True, exist_ok=True)
            self._file = LineFile(self.folder / LOG)
        self._file.append(json.dumps({"schema": SCHEMA, **fields}).encode())

    def _add(self, delta: _Delta, tree: dict[str, Entry]) -> None:
        self._deltas.append(delta)
        self._newest = len(self._deltas) - 1
        self._tree = tree

    def _forget_after(self, turn: int) -> None:
        while self._newest is not None and self._deltas[self._newest].turn > turn:
            self._newest = self._deltas[self._newest].before
        self._tree = {} if self._newest is None else self._folded(self._newest)

    def _folded(self, number: int | None) -> dict[str, Entry]:
        line: list[_Delta] = []
        while number is not None:
            line.append(self._deltas[number])
            number = line[-1].before
        tree: dict[str, Entry] = {}
        for delta in reversed(line):
            _apply(tree, delta)
        return tree

    def _read(self) -> None:
        file = self.folder / LOG
        try:
            data = file.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            raise Damaged(f"{str(file)!r} cannot be read ({error.strerror}); restore it from a copy.") from error
        whole = whole_lines(data)
        for number, line in enumerate(whole.lines, start=1):
            try:
                self._fold(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise Damaged(
                    f"{str(file)!r} is damaged in line {number} ({error!r}); restore it from a copy."
                ) from error
        if whole.lost:
            self.notices.append(f"snapshots/{LOG}: its last {whole.lost} bytes were cut off by a crash; left out.")
        self._file = LineFile(file)
        self._file.cut(whole.end)

    def _fold(self, raw: Mapping[str, Any]) -> None:
        if raw["schema"] != SCHEMA:
            raise ValueError(f"schema {raw['schema']!r}")
        if "reset" in raw:
            self._forget_after(raw["reset"])
            return
        changed = {name: Entry(*fields) for name, fields in raw["changed"].items()}
        delta = _Delta(raw["turn"], raw["tree"], self._newest, changed, raw["removed"])
        tree = dict(self._tree)
        _apply(tree, delta)
        if tree_name(tree) != delta.name:
            raise ValueError("the tree is not the one that was kept")
        self._add(delta, tree)


def _apply(tree: dict[str, Entry], delta: _Delta) -> None:
    for name in delta.removed:
        del tree[name]
    tree.update(delta.changed)


def tree_name(tree: Tree) -> str:
    """Return the SHA-256 over a tree."""
    text = json.dumps([[name, *tree[name].fields] for name in sorted(tree)])
    return hashlib.sha256(text.encode()).hexdigest()
