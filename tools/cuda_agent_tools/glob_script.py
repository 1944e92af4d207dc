"""What Glob runs inside the sandbox: `python3 -c <this file> ROOT PATTERN`. Standard library only.

It prints one JSON object. `**` does not follow links to directories (so a loop of links ends), other parts of a
pattern do. A leading dot must be in the pattern. It stops after `MAX_SECONDS` or `MAX_VISITED` entries and says so.
"""

import fnmatch
import json
import os
import re
import sys
import time
from collections.abc import Iterator

MAX_SECONDS = 10.0
MAX_VISITED = 300_000
MAX_SHOWN = 100


class Enough(Exception):
    """The tree is too large."""


class Walk:
    """One search."""

    def __init__(self) -> None:
        """Start the clock."""
        self.limit = time.monotonic() + MAX_SECONDS
        self.visited = 0
        self.found: dict[str, tuple[int, bool]] = {}

    def entries(self, folder: str) -> Iterator["os.DirEntry[str]"]:
        """List a folder; one that cannot be read is empty."""
        try:
            with os.scandir(folder) as listing:
                for entry in listing:
                    self.visited += 1
                    if self.visited > MAX_VISITED or time.monotonic() > self.limit:
                        raise Enough
                    yield entry
        except OSError:
            return

    def match(self, folder: str, parts: list[str]) -> None:
        """Collect what matches `parts` below `folder`; the stack is ours because a pattern may be long."""
        todo = [(folder, parts)]
        seen = set()
        while todo:
            folder, parts = todo.pop()
            if (folder, len(parts)) in seen:
                continue
            seen.add((folder, len(parts)))
            if not parts:
                self.add(folder)
            elif parts[0] == "**":
                todo.append((folder, parts[1:]))
                todo += [(path, parts) for path in self.folders(folder)]
                if len(parts) == 1:
                    todo += [(entry.path, []) for entry in self.entries(folder) if entry.name[0] != "."]
            elif re.search(r"[*?\[]", parts[0]):
                todo += [(path, parts[1:]) for path in self.named(folder, parts[0])]
            elif os.path.lexists(os.path.join(folder, parts[0])):
                todo.append((os.path.join(folder, parts[0]), parts[1:]))

    def folders(self, folder: str) -> list[str]:
        """Folders that `**` enters."""
        return [e.path for e in self.entries(folder) if e.name[0] != "." and e.is_dir(follow_symlinks=False)]

    def named(self, folder: str, part: str) -> list[str]:
        """Entries whose name matches one part of a pattern."""
        matches = re.compile(fnmatch.translate(part)).match
        return [e.path for e in self.entries(folder) if matches(e.name) and (e.name[0] != "." or part[0] == ".")]

    def add(self, path: str) -> None:
        """Keep a match with its age."""
        try:
            about = os.lstat(path)
        except OSError:
            return
        self.found[path] = (about.st_mtime_ns, os.path.isdir(path))


def main() -> None:
    """Search and print."""
    root, pattern = sys.argv[1], sys.argv[2]
    if pattern.startswith("/"):
        root = "/"
    walk = Walk()
    complete = True
    try:
        walk.match(root, [part for part in pattern.split("/") if part not in ("", ".")])
    except Enough:
        complete = False
    files = sorted(
        (path for path, (_, folder) in walk.found.items() if not folder), key=lambda p: (-walk.found[p][0], p)
    )
    folders = sorted(path for path, (_, folder) in walk.found.items() if folder)
    print(
        json.dumps(
            {
                "files": files[:MAX_SHOWN],
                "count": len(files),
                "folders": folders[:5],
                "complete": complete,
                "visited": walk.visited,
                "root_is_folder": os.path.isdir(root),
                "workspace": os.getcwd(),
            }
        )
    )


if __name__ == "__main__":
    main()
