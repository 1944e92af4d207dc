"""Operators: one `model.py` in the KernelBench format and the modules it imports from beside itself.

The file is read and parsed here and never imported: operator code runs in the sandbox only. What only running can tell
(an import that fails, a random result) is the judge's to say.
"""

import ast
import hashlib
import os
import stat
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cuda_agent.errors import OperatorError

MAIN = "model.py"
MAX_BYTES = 20_000_000
"""Of all files of one operator."""

_NOT_LOCAL = sys.stdlib_module_names | {"torch"}


@dataclass(frozen=True)
class Operator:
    """An operator as it will stand in the sandbox."""

    name: str
    path: Path
    """The file as the person named it."""
    files: Mapping[str, bytes]
    """By POSIX name; `model.py` is the operator itself, whatever its file is called."""
    sha256: str
    """Over names and bytes."""

    @property
    def source(self) -> str:
        """The operator's own source, without a byte order mark and with Unix line ends."""
        return _text(self.path, self.files[MAIN])


def load(path: Path) -> Operator:
    """Read and check an operator.

    Raises:
        OperatorError: it cannot be used; the sentence names the file and what to change.
    """
    file = path / MAIN if os.path.isdir(path) else path
    data = _read(file)
    tree = _parse(file, data)
    _check(file, tree)
    files = {MAIN: data, **_siblings(file, tree)}
    if sum(map(len, files.values())) > MAX_BYTES:
        raise OperatorError(
            f"{str(file)!r} and the modules it imports from beside itself are over {MAX_BYTES // 1_000_000} MB;"
            " move what it does not need out of that folder."
        )
    name = file.resolve().parent.name if file.name == MAIN else file.stem
    return Operator(name=name or "operator", path=file, files=files, sha256=digest(files))


def digest(files: Mapping[str, bytes]) -> str:
    """Return the SHA-256 over names and bytes, whatever the order of the mapping."""
    total = hashlib.sha256()
    for name in sorted(files):
        total.update(f"{len(name.encode())} {len(files[name])} {name}".encode() + files[name])
    return total.hexdigest()


def _read(file: Path) -> bytes:
    try:
        about = file.stat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > MAX_BYTES:
            raise OperatorError(f"{str(file)!r} is no file of at most {MAX_BYTES // 1_000_000} MB; name a Python file.")
        return file.read_bytes()
    except FileNotFoundError:
        raise OperatorError(
            f"{str(file)!r} does not exist; name a Python file with `class Model` and `get_inputs()`."
        ) from None
    except OSError as error:
        raise OperatorError(f"{str(file)!r} cannot be read ({error.strerror}); name a readable Python file.") from error


def _text(file: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise OperatorError(f"{str(file)!r} is not UTF-8 in line {line}; save it as UTF-8.") from error


def _parse(file: Path, data: bytes) -> ast.Module:
    text = _text(file, data)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except SyntaxError as error:
        where = f" in line {error.lineno}" if error.lineno else ""
        raise OperatorError(f"{str(file)!r} has a syntax error{where} ({error.msg}); correct it.") from error
    except (ValueError, RecursionError, MemoryError) as error:
        raise OperatorError(f"{str(file)!r} cannot be parsed ({error}); it must be plain Python source.") from error


def _check(file: Path, tree: ast.Module) -> None:
    names = set(_bound(tree.body))
    if "*" in names:
        return  # a star import may bring anything: the sandbox will tell
    if "Model" not in names:
        hint = " (it has `ModelNew`: give the reference, not a submission)" if "ModelNew" in names else ""
        raise OperatorError(f"{str(file)!r} has no `class Model`{hint}; add the PyTorch module to be optimised.")
    if "get_inputs" not in names:
        raise OperatorError(
            f"{str(file)!r} has no `get_inputs()`; add a function that returns the list of arguments of `forward`."
        )
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and node.level:
            raise OperatorError(
                f"{str(file)!r} has a relative import in line {node.lineno};"
                " write `from name import ...` without the dot: the operator is no part of a package."
            )


def _bound(body: Iterable[ast.stmt]) -> Iterator[str]:
    """Yield the names that running these statements at module level may bind."""
    for node in body:
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name
            case ast.Import() | ast.ImportFrom():
                yield from (alias.asname or alias.name for alias in node.names)
            case _:
                yield from _stored(node)


def _stored(node: ast.stmt) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            yield from _bound([child])
        elif isinstance(child, ast.ExceptHandler):
            yield from _bound(child.body)
        elif isinstance(child, ast.expr):
            yield from (n.id for n in ast.walk(child) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store))


def _siblings(main: Path, tree: ast.Module) -> dict[str, bytes]:
    """Collect the modules that `main` imports from its own folder, and what those import in turn."""
    root = main.parent
    found: dict[str, bytes] = {}
    waiting = sorted(_imported(tree))
    seen: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name in seen or name in _NOT_LOCAL:
            continue
        seen.add(name)
        for file in _module_files(root, name):
            if file.samefile(main):
                continue
            relative = file.relative_to(root).as_posix()
            if relative == MAIN:
                raise OperatorError(
                    f"{str(main)!r} imports {MAIN!r} from beside itself, the name it will have itself; rename that."
                )
            found[relative] = _read(file)
            waiting.extend(_imported(_parse(file, found[relative])))
    return found


def _imported(tree: ast.Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.partition(".")[0])
    return names


def _module_files(root: Path, name: str) -> list[Path]:
    """Return the file of a module, or every Python file of a package (its parts may import each other freely)."""
    package = root / name
    if os.path.isdir(package):
        return sorted(
            file
            for file in package.rglob("*.py")
            if os.path.isfile(file) and not any(p.startswith(".") for p in file.parts[len(root.parts) :])
        )
    file = root / f"{name}.py"
    return [file] if os.path.isfile(file) else []
