"""Texts of strangers made fit for a line, and durations."""

import json


def one_line(text: str, limit: int = 120) -> str:
    """The beginning of a text on one line; what a terminal would obey is left out."""
    line = " ".join(printable(text).split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"


def printable(text: str) -> str:
    """The text without control characters; line ends stay."""
    return "".join(letter for letter in text if letter.isprintable() or letter in "\n\t")


def duration(seconds: float | None) -> str:
    """``8 ms``, ``3.2 s``, ``12 min``; nothing is a dash."""
    if seconds is None:
        return "-"
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def as_call(name: str, arguments: str) -> str:
    """A call as Python would write it, such as ``find(limit=3, text="tea")``, in one short line; as
    it is if the model did not write an object.
    """
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = None
    if isinstance(parsed, dict):
        arguments = ", ".join(
            f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in parsed.items()
        )
    return one_line(f"{name}({arguments})", 70)


def counted(number: int, noun: str) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
