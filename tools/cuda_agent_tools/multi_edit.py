"""MultiEdit: several exact replacements in one file, all or none."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from cuda_agent_tools.arguments import Arguments, decode_list, parse, schema
from cuda_agent_tools.replacing import NotReplaced, replace
from cuda_agent_tools.sandbox import Sandbox
from cuda_agent_tools.text_file import TextFile
from cuda_agent_tools.tool import ToolError, ToolResult


class Edit(Arguments):
    """One replacement."""

    old_string: str
    new_string: str
    replace_all: bool = False


class MultiEditArguments(Arguments):
    """What MultiEdit takes."""

    file_path: str = Field(min_length=1, description="in the workspace or absolute")
    edits: Annotated[list[Edit], BeforeValidator(decode_list)] = Field(min_length=1)


class MultiEdit:
    """Edits or creates one text file."""

    name = "MultiEdit"
    description = (
        "Replace exact strings in a file, in order, all or nothing. Each old_string must occur once, or set "
        "replace_all. To create a file, make the first old_string empty and new_string its content."
    )

    def __init__(self, sandbox: Sandbox) -> None:
        """Edit files of `sandbox`."""
        self.parameters: dict[str, Any] = schema(MultiEditArguments)
        self._sandbox = sandbox

    def run(self, arguments: Mapping[str, Any], *, on_output: Callable[[bytes], None] | None = None) -> ToolResult:
        """Edit one file.

        Raises:
            ToolError: the arguments are wrong, an edit does not apply, the file cannot be read or written.
            SandboxLost: the sandbox is gone.
        """
        call = parse(MultiEditArguments, arguments, tool=self.name)
        before = self._read(call.file_path)
        file = before or TextFile("")
        text, places = self._apply(call, file, new_file=before is None)
        if before is not None and text == before.text:
            raise ToolError(f"MultiEdit: the edits leave {call.file_path} as it was; nothing was written")
        self._write(call.file_path, file, text)
        if before is None:
            return ToolResult(f"Created {call.file_path} ({_count(len(text.splitlines()), 'line')}).")
        lines = list(dict.fromkeys(places))
        where = ", ".join(map(str, lines[:12])) + (", ..." if len(lines) > 12 else "")
        count = _count(len(places), "replacement")
        return ToolResult(f"Edited {call.file_path}: {count}{f', at line {where}' if where else ''}.")

    def _apply(self, call: MultiEditArguments, file: TextFile, *, new_file: bool) -> tuple[str, list[int]]:
        text, places = file.text, list[int]()
        for number, edit in enumerate(call.edits, 1):
            try:
                if edit.old_string == "":
                    self._check_creation(call.file_path, number, exists=not new_file and file.text != "")
                    text = edit.new_string
                    continue
                if new_file and number == 1:
                    raise NotReplaced("the file does not exist; to create it, make the first old_string empty")
                if edit.old_string == edit.new_string:
                    raise NotReplaced("old_string and new_string are the same, so nothing changes")
                done = replace(text, edit.old_string, edit.new_string, every=edit.replace_all)
            except NotReplaced as error:
                which = f"edit {number} of {len(call.edits)}: " if len(call.edits) > 1 else ""
                raise ToolError(f"MultiEdit: {call.file_path}: {which}{error}; nothing was written") from None
            text = done.text
            places += done.lines
        return text, places

    @staticmethod
    def _check_creation(path: str, number: int, *, exists: bool) -> None:
        if number > 1:
            raise NotReplaced("an empty old_string is for the first edit of a new file only")
        if exists:
            raise NotReplaced(
                f"an empty old_string creates a file, but {path} exists; give the text to replace, "
                "or remove the file first"
            )

    def _read(self, path: str) -> TextFile | None:
        try:
            return TextFile.decode(self._sandbox.read(path))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise ToolError(f"MultiEdit: {path} cannot be read: {_reason(error)}") from error

    def _write(self, path: str, file: TextFile, text: str) -> None:
        try:
            data = file.encode(text)
        except UnicodeEncodeError as error:
            wrong = text[error.start]
            raise ToolError(
                f"MultiEdit: {path} is encoded in {file.encoding}, which has no {wrong!r}; nothing was written"
            ) from None
        try:
            self._sandbox.write(path, data)
        except (OSError, ValueError) as error:
            raise ToolError(f"MultiEdit: {path} cannot be written: {_reason(error)}") from error


def _reason(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
