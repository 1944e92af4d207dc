"""Nested arguments and results as a flat list of leaves and back. Standard library only.

Containers are dict (insertion order kept), list and tuple (named ones included). None, numbers, strings, tensors and
any other object are leaves.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

Path = tuple[str | int, ...]
"""Where a leaf stands: positions in lists and tuples, keys in dicts; () for a leaf that is the whole tree."""


@dataclass(frozen=True)
class Spec:
    """The shape of a tree without its leaves. Equal specs mean the same structure; a named tuple equals a plain one."""

    kind: Literal["leaf", "list", "tuple", "dict"] = "leaf"
    keys: tuple[Any, ...] = ()
    """Of a dict, in insertion order."""
    children: tuple["Spec", ...] = ()
    factory: type | None = field(default=None, compare=False)
    """The class of a named tuple, for `unflatten`."""

    @property
    def leaves(self) -> int:
        """How many leaves the tree has."""
        return 1 if self.kind == "leaf" else sum(child.leaves for child in self.children)

    def to_json(self) -> Any:
        """The structure as JSON: null for a leaf, else `{"list": []}`, `{"tuple": []}` or `{"dict": [[key, item]]}`."""
        if self.kind == "leaf":
            return None
        children = [child.to_json() for child in self.children]
        if self.kind == "dict":
            return {"dict": [[_key(key), child] for key, child in zip(self.keys, children, strict=True)]}
        return {self.kind: children}

    @classmethod
    def from_json(cls, value: Any) -> "Spec":
        """Read what `to_json` wrote.

        Raises:
            ValueError: it is no such thing.
        """
        if isinstance(value, dict) and len(value) != 1:
            raise ValueError(f"no tree structure: {str(value)[:80]!r}")
        match value:
            case None:
                return cls()
            case {"list": list(items)}:
                return cls("list", (), tuple(map(cls.from_json, items)))
            case {"tuple": list(items)}:
                return cls("tuple", (), tuple(map(cls.from_json, items)))
            case {"dict": list(pairs)} if all(isinstance(pair, list) and len(pair) == 2 for pair in pairs):
                return cls("dict", tuple(pair[0] for pair in pairs), tuple(cls.from_json(pair[1]) for pair in pairs))
        raise ValueError(f"no tree structure: {str(value)[:80]!r}")

    def __str__(self) -> str:
        """The structure for people: `(*, [*, *], {'h': *})`."""
        parts = [str(child) for child in self.children]
        match self.kind:
            case "leaf":
                return "*"
            case "list":
                return f"[{', '.join(parts)}]"
            case "tuple":
                return f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
            case "dict":
                return "{" + ", ".join(f"{k!r}: {part}" for k, part in zip(self.keys, parts, strict=True)) + "}"


def flatten(tree: Any) -> tuple[list[Any], Spec]:
    """The leaves in order and the structure that puts them together again."""
    leaves: list[Any] = []
    return leaves, _collect(tree, leaves)


def unflatten(leaves: Iterable[Any], spec: Spec) -> Any:
    """The tree of `spec` with these leaves.

    Raises:
        ValueError: the number of leaves is not the structure's.
    """
    items = list(leaves)
    if len(items) != spec.leaves:
        raise ValueError(f"{len(items)} leaves do not fill a structure of {spec.leaves}")
    return _rebuild(iter(items), spec)


def paths(tree: Any) -> list[Path]:
    """Where each leaf stands, in the order of `flatten`."""
    return [path for path, _ in _walk(tree, ())]


def _key(key: Any) -> Any:
    return key if isinstance(key, str | int | float | bool) or key is None else repr(key)


def _collect(tree: Any, leaves: list[Any]) -> Spec:
    if isinstance(tree, dict):
        return Spec("dict", tuple(tree), tuple(_collect(item, leaves) for item in tree.values()))
    if isinstance(tree, list | tuple):
        children = tuple(_collect(item, leaves) for item in tree)
        if isinstance(tree, list):
            return Spec("list", (), children)
        return Spec("tuple", (), children, None if type(tree) is tuple else type(tree))
    leaves.append(tree)
    return Spec()


def _rebuild(leaves: Iterator[Any], spec: Spec) -> Any:
    if spec.kind == "leaf":
        return next(leaves)
    children = [_rebuild(leaves, child) for child in spec.children]
    if spec.kind == "dict":
        return dict(zip(spec.keys, children, strict=True))
    if spec.kind == "list":
        return children
    if spec.factory is None:
        return tuple(children)
    # namedtuple classes take fields one by one, torch.return_types take one sequence; torch.Size is a plain subclass.
    make = getattr(spec.factory, "_make", spec.factory)
    return make(children)


def _walk(tree: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(tree, dict):
        for key, item in tree.items():
            yield from _walk(item, (*path, key if isinstance(key, str | int) else repr(key)))
    elif isinstance(tree, list | tuple):
        for position, item in enumerate(tree):
            yield from _walk(item, (*path, position))
    else:
        yield path, tree
