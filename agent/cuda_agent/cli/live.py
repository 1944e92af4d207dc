"""The live view: the plain lines scroll, and below them stand the rows of the dashboard."""

import sys
import termios
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO, cast

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from cuda_agent.cli.dashboard import ASCII, UNICODE, Dashboard, fitted, plain
from cuda_agent.cli.progress import Progress
from cuda_agent.trajectory import Event

LEAST_WIDTH, LEAST_HEIGHT = 60, 12
"""A smaller terminal gets plain lines."""
_PER_SECOND = 4
_FRAME = 4
"""Columns of the frame and the space inside it."""
_MARGIN = 1
"""The last column stays free: some terminals break the line there."""


@contextmanager
def watching(*, plain_lines: bool, as_json: bool, environ: Mapping[str, str]) -> Iterator[Progress]:
    """Show a run for the length of a `with` block, as a live view where the terminal can, else as plain lines."""
    if plain_lines or as_json or not _can_live(sys.stdout, environ):
        yield Progress(to_stderr=as_json)
        return
    console = Console(file=cast(TextIO, _Lasting(sys.stdout)), highlight=False, markup=False, emoji=False)
    if console.width < LEAST_WIDTH or console.height < LEAST_HEIGHT or console.is_dumb_terminal:
        yield Progress()
        return
    view = LiveView(console)
    with _no_echo(), Live(get_renderable=view.panel, console=console, refresh_per_second=_PER_SECOND, transient=True):
        yield view


def _can_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    return stream.isatty() and not environ.get("NO_COLOR")


@contextmanager
def _no_echo() -> Iterator[None]:
    """Keep what is typed (a ^C too) off the screen: it would move the cursor, and with it the view."""
    try:
        before = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):  # no terminal to type on
        yield
        return
    quiet = [*before[:3], before[3] & ~termios.ECHO, *before[4:]]
    try:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
        yield
    finally:
        with suppress(termios.error, OSError):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class _Lasting:
    """A stream that may go away (the terminal is closed) while the run goes on."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.encoding = stream.encoding

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()

    def isatty(self) -> bool:
        return self._stream.isatty()

    def fileno(self) -> int:
        return self._stream.fileno()


class LiveView(Progress):
    """Plain lines above, the dashboard below."""

    def __init__(self, console: Console, dashboard: Dashboard | None = None) -> None:
        super().__init__()
        self._console = console
        self._dashboard = dashboard or Dashboard()

    def line(self, text: str) -> None:
        """Print one line above the dashboard."""
        self._console.print(Text(plain(text), overflow="fold"))

    def on_output(self, data: bytes) -> None:
        """Show the end of what a command prints."""
        self._dashboard.on_output(data)

    def on_event(self, event: Event) -> None:
        """Follow the run."""
        self._dashboard.on_event(event)
        super().on_event(event)

    def panel(self) -> RenderableType:
        """Return the dashboard in a frame."""
        width = self._console.width - _MARGIN
        marks = ASCII if self._console.options.ascii_only else UNICODE
        rows = self._dashboard.rows(width - _FRAME, marks)
        title = Text(fitted(self._dashboard.title, width - 8))
        body = Text("\n".join(rows), no_wrap=True, overflow="crop")
        return Panel(body, title=title, title_align="left", width=width, padding=(0, 1), border_style="dim")
