"""The submission's files as this model's own edits left them, and the edits that turn them into others."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from cuda_agent.llm.builtin.history import Event, Purpose

MAX_HUNKS = 6
"""More changed places than this are written as one replacement of the whole text."""


class Files:
    """Texts by path. None stands for a file that is there with a text unknown to us."""

    def __init__(self) -> None:
        self.texts: dict[str, str | None] = {}
        self.failures = 0
        self.last_failure = ""

    def apply(self, event: Event) -> None:
        """Take in a write or a reset."""
        arguments = event.call.arguments or {}
        if event.purpose is Purpose.RESET:
            for path in str(arguments.get("command", "")).split()[2:]:
                self.texts.pop(path, None)
        elif event.purpose is Purpose.WRITE:
            self._write(str(arguments.get("file_path", "")), arguments.get("edits"), event.result)

    def _write(self, path: str, edits: Any, result: str) -> None:
        if not result.lstrip().startswith(("Created", "Edited")):
            self.texts[path] = None
            self.failures += 1
            self.last_failure = result.strip()[:300]
            return
        self.texts[path] = _edited(self.texts.get(path, ""), edits)

    def holds(self, wanted: Mapping[str, str]) -> bool:
        """Whether the files are exactly these."""
        return all(self.texts.get(path) == text for path, text in wanted.items())

    def unknown(self, wanted: Mapping[str, str]) -> list[str]:
        """Those of the files that are there with a text unknown to us."""
        return [path for path in wanted if path in self.texts and self.texts[path] is None]

    def edits_to(self, wanted: Mapping[str, str]) -> list[dict[str, Any]]:
        """Arguments of the MultiEdit calls that make the files these."""
        calls = []
        for path, text in wanted.items():
            old = self.texts.get(path)
            if old == text:
                continue
            edits = [_edit("", text)] if not old else edits_between(old, text)
            calls.append({"file_path": path, "edits": edits})
        return calls


def edits_between(old: str, new: str) -> list[dict[str, Any]]:
    """Replace the lines that differ, each found once; the whole text where that cannot be said shortly."""
    before, after = old.splitlines(keepends=True), new.splitlines(keepends=True)
    edits: list[dict[str, Any]] = []
    for tag, a, b, c, d in difflib.SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        if tag == "equal":
            continue
        lines, replacement = "".join(before[a:b]), "".join(after[c:d])
        if not lines.strip() or old.count(lines) != 1:
            return [_edit(old, new)]
        edits.append(_edit(lines, replacement))
    return edits if len(edits) <= MAX_HUNKS and _edited(old, edits) == new else [_edit(old, new)]


def _edit(old: str, new: str) -> dict[str, Any]:
    return {"old_string": old, "new_string": new, "replace_all": False}


def _edited(text: str | None, edits: Any) -> str | None:
    """Return the text after edits, None where they are not as this model writes them."""
    if not isinstance(edits, Sequence) or isinstance(edits, str):
        return None
    for edit in edits:
        if not isinstance(edit, Mapping) or "old_string" not in edit or "new_string" not in edit:
            return None
        old, new = str(edit["old_string"]), str(edit["new_string"])
        if old == "":
            text = new
        elif text is None or text.count(old) != 1:
            return None
        else:
            text = text.replace(old, new)
    return text
