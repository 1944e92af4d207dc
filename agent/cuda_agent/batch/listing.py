"""Which operators a batch is about: KernelBench folders, folders with a model.py each, single files, or a list of them.

Nothing is imported, and a file that cannot be used is listed like any other: its run will say what is wrong with it.
"""

import ast
import fnmatch
import hashlib
import os
import re
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.errors import ConfigError, OperatorError
from cuda_agent.operators import MAIN, load

_LEVEL = re.compile(r"level[_-]?(\d+)", re.IGNORECASE)
_NO_OPERATORS = frozenset({"model_new.py", "__init__.py", "setup.py", "conftest.py"})
_IN_A_NAME = re.compile(r"(\d+)")


@dataclass(frozen=True)
class Selection:
    """Which of the operators that were found are meant."""

    filters: tuple[str, ...] = ()
    """An operator must fit one: a pattern with * ? [] over its name or path, or a part of them."""
    levels: tuple[str, ...] = ()
    limit: int | None = None
    """So many at most, the first ones."""


@dataclass(frozen=True)
class Found:
    """One operator as it lies there."""

    name: str
    key: str
    """Its path relative to the root, with `/`."""
    path: Path
    level: str
    sha256: str


@dataclass(frozen=True)
class Listing:
    """All that was found, in natural order: 2 before 10."""

    root: Path
    """The folder that the keys are relative to."""
    operators: tuple[Found, ...]
    left_out: tuple[str, ...]
    """Python files that hold no operator: modules of others, most likely."""


def find(source: Path, selection: Selection) -> Listing:
    """List the operators that a path names: a folder, a file, or `@FILE` (or FILE.txt) with a path a line.

    Raises:
        ConfigError: there is none.
    """
    try:
        root, paths, are_named = _candidates(source)
    except OSError as error:
        raise ConfigError(f"{error.filename!r} cannot be read ({error.strerror}); name a readable folder.") from error
    meant, left_out = _meant(root, paths, selection, are_named=are_named)
    if not meant:
        raise ConfigError(f"{_why_none(source, paths, selection)}; see `cuda-agent batch --help`.")
    return Listing(root, tuple(_found(path, root) for path in meant), tuple(left_out))


def _candidates(source: Path) -> tuple[Path, list[Path], bool]:
    """Return the root, the files that may be operators, and whether a person named each of them."""
    if (listed := _list_file(source)) is not None:
        return listed.parent.resolve(), _listed(listed), True
    if os.path.isdir(source):
        root = source.resolve()
        return root, [*_walk(root)], False
    try:
        os.stat(source)
    except FileNotFoundError:
        raise ConfigError(
            f"{str(source)!r} does not exist; name a folder of operators, a file, or @LIST.txt."
        ) from None
    file = source.resolve()
    return file.parent, [file], True


def _why_none(source: Path, paths: Sequence[Path], selection: Selection) -> str:
    if not paths:
        return f"{str(source)!r} holds no operator: no model.py and no Python file with `class Model`"
    if selection.filters or selection.levels:
        return f"--filter and --level leave none of the operators in {str(source)!r}"
    return f"{str(source)!r} holds no operator: none of its Python files has `class Model`"


def _meant(root: Path, paths: Sequence[Path], selection: Selection, *, are_named: bool) -> tuple[list[Path], list[str]]:
    """Return the operators that are meant, and the files that are none; `are_named`: by a person, one by one."""
    meant: list[Path] = []
    left_out: list[str] = []
    for path in dict.fromkeys(paths):
        if selection.limit is not None and len(meant) >= selection.limit:
            break
        key = _key(path, root)
        if not _fits(key, _name(path), _level(root, key), selection):
            continue
        if are_named or path.name == MAIN or _may_be_operator(path):
            meant.append(path)
        else:
            left_out.append(key)
    return meant, left_out


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts numbers in names by their value."""
    parts = _IN_A_NAME.split(text.casefold())
    return tuple((0, int(part), "") if part.isdecimal() else (1, 0, part) for part in parts)


def _list_file(source: Path) -> Path | None:
    text = str(source)
    if text.startswith("@"):
        return Path(text[1:])
    return source if source.suffix in (".txt", ".list") and os.path.isfile(source) else None


def _listed(file: Path) -> list[Path]:
    try:
        lines = file.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"The list {str(file)!r} cannot be read ({error}); it holds a path a line.") from error
    named = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    paths = [Path(os.path.abspath(file.parent / line)) for line in named]
    return [path / MAIN if os.path.isdir(path) else path for path in paths]


def _walk(root: Path) -> Iterator[Path]:
    """Yield what may be operators, in natural order; below a folder with a model.py nothing else is looked for.

    Runs and batches are passed over: they hold copies of operators.
    """
    if any(os.path.isfile(root / name) for name in ("run.json", "batch.json")):
        return
    if os.path.isfile(root / MAIN):
        yield root / MAIN
        return
    entries = sorted(root.iterdir(), key=lambda path: natural(path.name))
    for entry in entries:
        if entry.name.startswith((".", "_")) or entry.name in _NO_OPERATORS:
            continue
        if os.path.isdir(entry) and not os.path.islink(entry):
            yield from _walk(entry)
        elif entry.suffix == ".py":
            yield entry


def _fits(key: str, name: str, level: str, selection: Selection) -> bool:
    if selection.levels and level not in selection.levels:
        return False
    return not selection.filters or any(matches(pattern, key, name) for pattern in selection.filters)


def matches(pattern: str, key: str, name: str) -> bool:
    """Say whether a pattern (with * ? [] ) fits a name or path, or a plain word is a part of one."""
    if any(char in pattern for char in "*?["):
        return any(fnmatch.fnmatchcase(text, pattern) for text in (key, name, key.rpartition("/")[2]))
    return pattern in key or pattern in name


def _level(root: Path, key: str) -> str:
    folders = [root.name, *key.split("/")[:-1]]
    found = [match[1] for part in folders if (match := _LEVEL.fullmatch(part))]
    return found[-1] if found else ""


def _key(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix()


def _name(path: Path) -> str:
    return path.parent.name if path.name == MAIN else path.stem


def _may_be_operator(path: Path) -> bool:
    """Say False of a module that plainly is something else; a broken file is for its run to refuse."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(_read(path))
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return True
    imported = [alias for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names]
    stars = any(alias.name == "*" for alias in imported)
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    names |= {alias.asname or alias.name for alias in imported}
    return stars or bool({"Model", "get_inputs"} & names)


def _read(path: Path) -> bytes:
    """Read a file. What is none is for its run to refuse: whoever reads a pipe waits for somebody to write to it.

    Raises:
        OSError: it cannot be read, or is no plain file.
    """
    if not os.path.isfile(path):
        raise FileNotFoundError(path)
    return path.read_bytes()


def _found(path: Path, root: Path) -> Found:
    key = _key(path, root)
    return Found(_name(path) or "operator", key, path, _level(root, key), _sha256(path))


def _sha256(path: Path) -> str:
    try:
        return load(path).sha256
    except OperatorError:
        pass
    try:
        return hashlib.sha256(_read(path)).hexdigest()
    except OSError:
        return ""
