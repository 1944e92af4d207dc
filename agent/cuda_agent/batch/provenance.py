"""Where operators come from, so that a table says what it is about: a commit, and a digest in any case."""

import hashlib
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path

from cuda_agent.batch.listing import Listing

_TIMEOUT_S = 60.0
_DIGITS = 12


def source_of(listing: Listing, named: str | None) -> str:
    """Say where the operators come from: what the person said, else the commit of their checkout; with a digest."""
    digest = f"sha256 {digest_of(one.sha256 + one.key for one in listing.operators)}"
    said = named if named is not None else _commit(listing)
    return f"{said}; {digest}" if said else f"{listing.root.name}, no checkout; {digest}"


def digest_of(parts: Iterable[str]) -> str:
    """Return a short digest over texts, whatever their order."""
    return hashlib.sha256("\n".join(sorted(parts)).encode("utf-8", "surrogateescape")).hexdigest()[:_DIGITS]


def _commit(listing: Listing) -> str:
    """Return the checkout's name and commit, and whether one of the operators' files is not as committed."""
    root = listing.root
    top, head = _git(root, "rev-parse", "--show-toplevel"), _git(root, "rev-parse", "HEAD")
    if not top or not head:
        return ""
    # By git's own hash of each file: `git status` may leave out what is ignored or assumed to be unchanged.
    committed = {
        line.partition("\t")[2]: line.split()[2]
        for line in _git(root, "ls-tree", "-r", "-z", "HEAD", "--", ".").split("\0")
        if "\t" in line
    }
    changed = sum(_blob(one.path) != committed.get(one.key) for one in listing.operators)
    if changed == len(listing.operators):
        return ""  # a checkout that does not hold them
    return f"{Path(top).name} {head[:_DIGITS]}" + (f" with {changed} changed" if changed else "")


def _blob(path: Path) -> str:
    try:
        data = path.read_bytes()
    except OSError:
        return ""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _git(folder: Path, *arguments: str) -> str:
    """Ask git about a checkout; "" where it has no answer. Nothing that the checkout's settings name is run."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    safe = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null", "-c", "core.quotePath=false")
    try:
        done = subprocess.run(
            ["git", *safe, *arguments],
            cwd=folder,
            env=environment,
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT_S,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.decode("utf-8", "surrogateescape").strip() if done.returncode == 0 else ""
