"""Glob: files by name, newest first. The search itself runs inside the sandbox (`glob_script.py`)."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import Field

from cuda_agent_tools.arguments import Arguments, parse, schema
from cuda_agent_tools.sandbox import Sandbox, SandboxError
from cuda_agent_tools.tool import ToolError, ToolResult

SCRIPT = Path(__file__).with_name("glob_script.py")
TIMEOUT_S = 30.0
CONTROLS = {code: f"\\x{code:02x}" for code in (*range(32), 127)}


class GlobArguments(Arguments):
    """What Glob takes."""

    pattern: str = Field(min_length=1, description="such as kernels/**/*.cu")
    path: str = Field(default="", description="directory to search, the workspace by default")


class Glob:
    """Finds files by a pattern."""

    name = "Glob"
    description = (
        "List files that match a pattern (* ? [...] and ** for any number of directories; no braces), newest first, "
        "at most 100. Names that begin with a dot match only a pattern with that dot."
    )

    def __init__(self, sandbox: Sandbox) -> None:
        """Search in `sandbox`."""
        self.parameters: dict[str, Any] = schema(GlobArguments)
        self._sandbox = sandbox
        self._script = SCRIPT.read_text(encoding="utf-8")

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        """Search once.

        Raises:
            ToolError: the arguments are wrong, or the search failed.
            SandboxLost: the sandbox is gone.
        """
        call = parse(GlobArguments, arguments, tool=self.name)
        found = self._search(call)
        if not found["root_is_folder"]:
            raise ToolError(f"Glob: `path` {call.path!r} is not a directory")
        lines = [_shown(path, found["workspace"]) for path in found["files"]]
        lines += self._notes(call.pattern, found)
        return ToolResult("\n".join(lines))

    def _search(self, call: GlobArguments) -> Any:
        root = call.path or "."
        try:
            argv = ["python3", "-I", "-S", "-c", self._script, root, call.pattern]
            result = self._sandbox.exec(argv, timeout_s=TIMEOUT_S)
        except (OSError, ValueError) as error:
            raise ToolError(f"Glob: the search could not be started: {error}") from error
        if result.timed_out:
            raise ToolError(f"Glob: the search took longer than {TIMEOUT_S:.0f} s; give a narrower `path`")
        try:
            return json.loads(result.stdout)
        except ValueError as error:
            raise SandboxError(
                f"the search failed in the sandbox: {result.stderr.decode(errors='replace')[-300:]}"
            ) from error

    @staticmethod
    def _notes(pattern: str, found: Mapping[str, Any]) -> list[str]:
        notes = []
        shown, count = len(found["files"]), found["count"]
        if shown < count:
            notes.append(f"[the newest {shown} of {count:,} files]")
        if not count:
            notes.append(f"No file matches {pattern!r}.")
            if found["folders"]:
                folders = ", ".join(_shown(path, found["workspace"]) + "/" for path in found["folders"])
                notes.append(f"Directories that match: {folders}")
            if "{" in pattern:
                notes.append("Braces are not expanded: call once for each alternative.")
        if not found["complete"]:
            notes.append(
                f"[stopped after {found['visited']:,} entries: files may be missing; narrow the pattern or `path`]"
            )
        return notes


def _shown(path: str, workspace: str) -> str:
    """Return the path as the model may use it: relative inside the workspace, on one line."""
    if path.startswith("./"):
        path = path[2:]
    elif path.startswith(workspace + "/"):
        path = path[len(workspace) + 1 :]
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace").translate(CONTROLS)
