"""The live view: the plain lines scroll, and below them stand the rows of the dashboard."""

import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any, TextIO, cast

from rich.console import Console, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from cuda_agent.cli.dashboard import ASCII, UNICODE, Dashboard, fitted, plain
from cuda_agent.cli.progress import WIDTH, Progress
from cuda_agent.trajectory import Event

LEAST_WIDTH, LEAST_HEIGHT = 60, 12
"""A smaller terminal gets plain lines."""
_PER_SECOND = 4
_PATIENCE_S = 1.0
"""For the panel to go; it cannot while what was interrupted holds the console."""
_FRAME = 4
"""Columns of the frame and the space inside it."""
_MARGIN = 1
"""The last column stays free: some terminals break the line there."""


@contextmanager
def watching(*, plain_lines: bool, as_json: bool, environ: Mapping[str, str]) -> Iterator[Progress]:
    """Show a run for the length of a `with` block, as a live view where the terminal can, else as plain lines."""
    if plain_lines or as_json or not can_live(sys.stdout, environ):
        yield Progress(to_stderr=as_json)
        return
    console = Console(file=cast(TextIO, Lasting(sys.stdout)), highlight=False, markup=False, emoji=False)
    if console.width < LEAST_WIDTH or console.height < LEAST_HEIGHT or console.is_dumb_terminal:
        yield Progress()
        return
    view = LiveView(console)
    with _Display(view, console) as live:
        view.live = live
        try:
            view.echo.off()
            yield view
        finally:
            view.echo.on()


def can_live(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Say whether a view that is drawn anew can be shown there."""
    return stream.isatty() and not environ.get("NO_COLOR")


class Echo:
    """Keeps what is typed (a ^C too) off the screen while a view stands: it would move the cursor, and the view."""

    def __init__(self) -> None:
        self._before: list[Any] | None = None
        with suppress(termios.error, OSError, ValueError):  # no terminal to type on
            self._before = termios.tcgetattr(sys.stdin)

    def off(self) -> None:
        if self._before is not None:
            self._set([*self._before[:3], self._before[3] & ~termios.ECHO, *self._before[4:]])

    def on(self) -> None:
        if self._before is not None:
            self._set(self._before)

    @staticmethod
    def _set(how: list[Any]) -> None:
        with suppress(termios.error, OSError):
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, how)


class Lasting:
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
        super().__init__(width=min(WIDTH, console.width))
        self._console = console
        self._dashboard = dashboard or Dashboard()
        self.is_quiet = False
        """Whether somebody else has the terminal."""
        self.is_gone = False
        """Whether the panel was taken away for them."""
        self.live: Live | None = None
        """What shows the panel."""
        self.echo = Echo()

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Take the panel away for the length of a `with` block.

        In a signal's handler the console may be locked by what was interrupted, so nothing is asked of it here: the
        next refresh takes the panel away, and there is none after it.
        """
        self.is_gone, self.is_quiet = False, True
        deadline = time.monotonic() + _PATIENCE_S
        while not self.is_gone and time.monotonic() < deadline:
            time.sleep(0.02)
        self.echo.on()
        try:
            yield
        finally:
            self.echo.off()
            self.is_quiet = False

    def settle(self) -> None:
        """Take the panel away for good."""
        if self.live is not None:
            self.live.stop()
        self.echo.on()

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
        if self.is_quiet:
            return Text("", end="")
        width = self._console.width - _MARGIN
        marks = ASCII if self._console.options.ascii_only else UNICODE
        rows = self._dashboard.rows(width - _FRAME, marks)
        title = Text(fitted(self._dashboard.title, width - 8))
        body = Text("\n".join(rows), no_wrap=True, overflow="crop")
        return Panel(body, title=title, title_align="left", width=width, padding=(0, 1), border_style="dim")


class _Display(Live):
    """Refreshes the panel, but not while somebody else has the terminal: an empty one clears the cursor's line, too."""

    def __init__(self, view: LiveView, console: Console) -> None:
        super().__init__(get_renderable=view.panel, console=console, refresh_per_second=_PER_SECOND, transient=True)
        self._view = view

    def refresh(self) -> None:
        """Show the panel, or take it away once."""
        quiet = self._view.is_quiet
        if quiet and self._view.is_gone:
            return
        super().refresh()
        self._view.is_gone = quiet
