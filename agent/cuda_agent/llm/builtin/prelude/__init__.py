"""The C++ functions that generated kernels are made of; only those that a kernel calls are written into it."""

from collections.abc import Iterable
from functools import cache
from importlib import resources


@cache
def _snippets(name: str) -> dict[str, tuple[tuple[str, ...], str]]:
    """By function: what it depends on, and its text. A line `//@ name: dependencies` opens a snippet."""
    text = resources.files(__name__).joinpath(name).read_text(encoding="utf-8")
    found: dict[str, tuple[tuple[str, ...], str]] = {}
    for block in text.split("//@ ")[1:]:
        title, _, body = block.partition("\n")
        function, _, needs = title.partition(":")
        found[function.strip()] = (tuple(needs.split()), body.strip())
    return found


def write_prelude(functions: Iterable[str], files: Iterable[str]) -> str:
    """Return the snippets that `functions` need, dependencies first; an earlier file's snippet wins over a later one's.

    Raises:
        KeyError: no file has the function.
    """
    known: dict[str, tuple[tuple[str, ...], str]] = {}
    for name in files:
        for function, snippet in _snippets(name).items():
            known.setdefault(function, snippet)
    order: dict[str, str] = {}

    def add(function: str) -> None:
        if function in order:
            return
        needs, text = known[function]
        for need in needs:
            add(need)
        order[function] = text

    for function in sorted(functions):
        add(function)
    return "\n".join(order.values())
