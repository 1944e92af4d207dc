"""Reads a person's lines: with history and completion at a terminal, plainly from a pipe."""

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol, TextIO

from cuda_agent.debugger.screen import plain
from cuda_agent.errors import UsageError

if TYPE_CHECKING:
    from prompt_toolkit.completion import Completer

Words = Callable[[str], Sequence[str]]
"""What the last word of a line may become."""


class Lines(Protocol):
    """Where commands come from."""

    interactive: bool
    """A person sits there, who can be asked again."""

    def read(self, prompt: str) -> str | None:
        """Return the next line; None at the end of the input.

        Raises:
            KeyboardInterrupt: Ctrl-C, or `interrupt` was called.
        """
        ...

    def interrupt(self) -> None:
        """Make a `read` that is waiting raise KeyboardInterrupt; called by the handler of a signal."""
        ...


class PipedLines:
    """Lines of a stream; each is shown behind the prompt, so that the output reads like a session."""

    def __init__(self, source: BinaryIO, out: TextIO, *, interactive: bool = False) -> None:
        self.interactive = interactive
        self._source = source
        self._out = out

    def read(self, prompt: str) -> str | None:
        """Return the next line."""
        print(prompt, end="", file=self._out, flush=True)
        data = self._source.readline()
        line = plain(data.decode("utf-8", "replace")).strip() if data else None
        if not self.interactive:
            print("" if line is None else line, file=self._out, flush=True)
        return line

    def interrupt(self) -> None:
        """Leave `read`."""
        raise KeyboardInterrupt


class TerminalLines:
    """A terminal with line editing, history (kept in a file) and completion by Tab."""

    interactive = True

    def __init__(self, out: TextIO, words: Words, history: Path) -> None:
        from prompt_toolkit import PromptSession  # heavy: only when a person debugs at a terminal
        from prompt_toolkit.history import FileHistory, History, InMemoryHistory
        from prompt_toolkit.output import ColorDepth
        from prompt_toolkit.output.vt100 import Vt100_Output
        from prompt_toolkit.shortcuts import CompleteStyle

        kept: History = InMemoryHistory()
        with contextlib.suppress(OSError):  # a history that cannot be kept is no reason not to debug
            history.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            history.touch(mode=0o600)
            if os.access(history, os.W_OK):
                kept = FileHistory(str(history))
        # No questions to the terminal about its cursor: over a slow line the answers would come in as typed text.
        output = Vt100_Output.from_pty(
            out, term=os.environ.get("TERM"), default_color_depth=ColorDepth.DEPTH_1_BIT, enable_bell=False
        )
        output.enable_cpr = False
        self._session: PromptSession[str] = PromptSession(
            history=kept,
            completer=_completer(words),
            complete_while_typing=False,
            complete_style=CompleteStyle.READLINE_LIKE,
            output=output,
        )

    def read(self, prompt: str) -> str | None:
        """Return the next line."""
        try:
            return plain(self._session.prompt(prompt)).strip()
        except EOFError:
            return None

    def interrupt(self) -> None:
        """Leave `read` where the editor can be left in order: the terminal is as it was before."""
        app = self._session.app
        if app.loop is None or not app.is_running:
            raise KeyboardInterrupt
        app.loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        app = self._session.app
        if app.future is not None and not app.future.done():
            app.exit(exception=KeyboardInterrupt())


def _completer(words: Words) -> "Completer":
    from prompt_toolkit.completion import CompleteEvent, Completer, Completion
    from prompt_toolkit.document import Document

    class WordCompleter(Completer):
        def get_completions(self, document: Document, complete_event: CompleteEvent) -> "list[Completion]":
            begun = document.text_before_cursor.rpartition(" ")[2]
            return [Completion(word, -len(begun)) for word in words(document.text_before_cursor)]

    return WordCompleter()


def lines_for(source: TextIO, out: TextIO, words: Words, environ: Mapping[str, str]) -> Lines:
    """Return line editing where a person sits at a terminal that can do it, plain lines elsewhere."""
    seated = source.isatty() and out.isatty()
    if seated and environ.get("TERM", "dumb") != "dumb":
        return TerminalLines(out, words, history_file(environ))
    return PipedLines(source.buffer, out, interactive=seated)


def history_file(environ: Mapping[str, str]) -> Path:
    """Return where the history of commands is kept."""
    base = environ.get("XDG_STATE_HOME") or os.path.join(
        environ.get("HOME") or os.path.expanduser("~"), ".local", "state"
    )
    return Path(base) / "cuda-agent" / "debug_history"


def edit_in_editor(text: str, *, suffix: str) -> str:
    """Let a person edit a text in $VISUAL or $EDITOR (vi where neither is set).

    Raises:
        UsageError: there is no terminal for it, or it failed.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError("An editor needs a terminal; `edit KEY=VALUE` changes one argument without it.")
    editor = os.environ.get("VISUAL") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory(prefix="cuda-agent-edit-") as folder:
        file = Path(folder) / f"call{suffix}"
        file.write_text(text, encoding="utf-8", errors="backslashreplace")
        try:
            done = subprocess.run([*shlex.split(editor), str(file)], check=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"The editor {editor!r} cannot be started ({error}); set $EDITOR to another.") from error
        if done.returncode != 0:
            raise UsageError(f"The editor {editor!r} ended with exit code {done.returncode}; the call is unchanged.")
        return file.read_text(encoding="utf-8", errors="replace")
