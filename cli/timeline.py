"""The story of a run, from the report of ``GET /ops/runs/{id}``."""

from collections.abc import Iterator
from typing import Any

from cli.terminal import printable


def timeline(report: dict[str, Any]) -> Iterator[str]:
    """All that happened so far, oldest first, each with its distance from the beginning. Only calls
    are known longer than a run's log is kept.
    """
    if not report["events"]:
        left = " What is left are its calls:" if report["timeline"] else ""
        yield f"The run's log is not kept any more.{left}"
    for line in report["timeline"]:
        since_s = (line["at_ms"] - report["created_ms"]) / 1000
        yield printable(f"{since_s:+9.3f} s  {line['subject']:<7} {line['text']}")
