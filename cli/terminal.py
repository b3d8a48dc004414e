"""What reaches the terminal: columns, and texts of strangers without control characters."""

import sys
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

PIPE_WIDTH: Final = 240  # into a pipe or file, no id is cut


def say(text: str, name: str = "runstate") -> None:
    """A line about what goes on, on stderr. A closed terminal must not stop the stopping."""
    with suppress(OSError):
        print(f"{name:<18} | {text}", file=sys.stderr, flush=True)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Rows under their titles, one line each."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.upper(), no_wrap=True)
    for row in rows:
        table.add_row(*(Text(one_line(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else PIPE_WIDTH).print(table)


def one_line(text: str, limit: int = 120) -> str:
    """The beginning of a text on one line; what a terminal would obey is left out."""
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def printable(text: str) -> str:
    """The text without control characters; line ends stay."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def moment(epoch_s: int | None) -> str:
    """A time as the terminal's place has it; nothing yet is a dash."""
    if epoch_s is None:
        return "-"
    return datetime.fromtimestamp(epoch_s, UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def duration(seconds: float | None) -> str:
    """``8 ms``, ``3.2 s``, ``12 min``; nothing is a dash."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"
