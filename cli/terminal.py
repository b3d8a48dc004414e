"""What reaches the terminal: columns, and texts of strangers without control characters."""

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from typing import Any, Final, Literal

from rich.console import Console
from rich.progress import Progress
from rich.table import Table
from rich.text import Text

from orchestrator.story.words import duration, one_line, printable

__all__ = ["counted", "duration", "moment", "one_line", "print_table", "printable", "say"]

PIPE_WIDTH: Final = 240  # into a pipe or file, no id is cut


def say(text: str, name: str = "runstate") -> None:
    """A line about what goes on, on stderr. A closed terminal must not stop the stopping."""
    with suppress(OSError):
        print(f"{name:<18} | {text}", file=sys.stderr, flush=True)


@contextmanager
def counted(tasks: Sequence[asyncio.Task[Any]], what: str) -> Iterator[None]:
    """Shows on stderr how many of the tasks are done, if that is a terminal."""
    console = Console(stderr=True)
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(what, total=len(tasks))
        for task in tasks:
            task.add_done_callback(lambda _: progress.advance(bar))
        yield


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], wrapped: int = 0) -> None:
    """Rows under their titles, one line each. In a narrow terminal all columns are cut, or only the
    first ones are ``wrapped``.
    """
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for place, column in enumerate(columns):
        is_wrapped = place < wrapped
        overflow: Literal["fold", "ellipsis"] = "fold" if is_wrapped else "ellipsis"
        table.add_column(column.upper(), no_wrap=not is_wrapped, overflow=overflow)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


def moment(epoch_s: int | None) -> str:
    """A time as the terminal's place has it; nothing yet is a dash."""
    if epoch_s is None:
        return "-"
    return datetime.fromtimestamp(epoch_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
