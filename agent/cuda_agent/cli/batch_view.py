"""Shows a batch: a bar and a table below lines that scroll where the terminal can, else lines only."""

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO, cast

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from cuda_agent.batch.faults import Verdict
from cuda_agent.batch.jobs import Job
from cuda_agent.batch.tables import counted
from cuda_agent.cli.batch_rows import Board, ended_line
from cuda_agent.cli.dashboard import fitted, plain
from cuda_agent.cli.live import LEAST_HEIGHT, LEAST_WIDTH, Echo, Lasting, can_live

_PER_SECOND = 2
_HEADS = ("operator", "stage", "turn", "best", "cost", "time")
_SPARE_ROWS = 6
"""Of the terminal, for the bar, the heads and the lines above."""


class BatchLines:
    """A watcher that prints a line for each run that begins or ends."""

    def __init__(self, board: Board, stream: TextIO) -> None:
        self._board = board
        self._stream = stream

    def line(self, text: str) -> None:
        """Print one line at once."""
        with suppress(OSError):  # nobody reads any more: the batch goes on
            print(plain(text), file=self._stream, flush=True)

    def planned(self, *, total: int, left: int) -> None:
        """Say how much there is to do."""
        self._board.planned(total=total, left=left)
        self.line(f"{counted(total, 'run')}{f', {total - left} of them done before' if total > left else ''}")

    def began(self, job: Job, run: Path, *, resumed: bool) -> None:
        """Say which run begins."""
        self._board.began(job, run)
        self.line(f"{job.name}: {'goes on' if resumed else 'begins'}")

    def ended(self, job: Job, verdict: Verdict, document: Mapping[str, Any] | None, *, again: bool) -> None:
        """Say how a run ended, and how far the batch is."""
        self._board.ended(job, verdict, document, again=again)
        self.line(f"{ended_line(job, verdict, document, again=again)}  [{self._board.standing}]")

    def tick(self) -> None:
        """Do nothing: lines come with what happens."""


class BatchLive(BatchLines):
    """Lines above; a bar with the forecast and a row for each run at work below."""

    def __init__(self, board: Board, console: Console) -> None:
        super().__init__(board, sys.stdout)
        self._console = console

    def line(self, text: str) -> None:
        """Print one line above the table."""
        self._console.print(Text(plain(text), overflow="fold"))

    def began(self, job: Job, run: Path, *, resumed: bool) -> None:
        """Show it in the table."""
        self._board.began(job, run)

    def tick(self) -> None:
        """Read what the runs wrote; the table is drawn anew by itself."""
        self._board.follow()

    def panel(self) -> RenderableType:
        """Return the bar and the table."""
        width = self._console.width - 1
        board = self._board
        table = Table(box=None, width=width, pad_edge=False, header_style="dim")
        for head in _HEADS:
            table.add_column(head, ratio=3 if head == "operator" else 1, no_wrap=True, overflow="crop")
        for row in board.table(max(1, self._console.height - _SPARE_ROWS)):
            table.add_row(*(Text(fitted(cell, width)) for cell in row))
        bar = Table.grid()  # a bar alone does not end its line
        bar.add_row(ProgressBar(total=max(1, board.total), completed=board.done, width=min(width, 60)))
        return Group(Text(fitted(board.standing, width)), bar, table)


@contextmanager
def watching_batch(
    board: Board, *, plain_lines: bool, as_json: bool, environ: Mapping[str, str]
) -> Iterator[BatchLines]:
    """Show a batch for the length of a `with` block."""
    if plain_lines or as_json or not can_live(sys.stdout, environ):
        yield BatchLines(board, sys.stderr if as_json else sys.stdout)
        return
    console = Console(file=cast(TextIO, Lasting(sys.stdout)), highlight=False, markup=False, emoji=False)
    if console.width < LEAST_WIDTH or console.height < LEAST_HEIGHT or console.is_dumb_terminal:
        yield BatchLines(board, sys.stdout)
        return
    view = BatchLive(board, console)
    echo = Echo()
    with Live(get_renderable=view.panel, console=console, refresh_per_second=_PER_SECOND, transient=True):
        echo.off()
        try:
            yield view
        finally:
            echo.on()
