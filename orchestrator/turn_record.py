"""What one model turn was sent and what came of it, kept in few bytes. Pure.

The texts are in the transcript already: a record holds only the places of what was shown and what
was left out, as ranges. A turn costs the same space however long its conversation is.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from orchestrator.records import Record, Usage

Spans = tuple[tuple[int, int], ...]
"""Places in the transcript as ranges, both ends included: ``((0, 3), (7, 7))``."""


class TurnRecord(Record):
    """One finished turn; ``turn`` counts from 0.

    ``dropped`` is by the rule that left it out; ``limit_tokens`` is what that rule allowed and
    ``counted_tokens`` what the prompt weighed, both by our count (``None``: not counted, since all
    of it fitted). ``api`` and ``model`` are those that answered, or failed last. ``failures`` are
    the model calls of this turn before. ``max_completion_tokens`` is what was left of the run's,
    ``max_output_tokens`` the cap of the model's route. ``stop`` is ``None`` if the turn failed.
    """

    turn: int
    generation: int
    api: str
    model: str
    tool_choice: Any
    max_completion_tokens: int | None
    max_output_tokens: int
    shown: Spans
    dropped: Mapping[str, Spans] = Field(default_factory=dict)
    limit_tokens: int | None = None
    counted_tokens: int | None = None
    asked_ms: int
    latency_ms: int
    failures: tuple[str, ...] = ()
    stop: str | None = None
    usage: Usage | None = None


def spans(places: Iterable[int]) -> Spans:
    """The ranges that hold exactly these places."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and place == found[-1][1] + 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return tuple(found)


def is_within(place: int, ranges: Spans) -> bool:
    """Whether one of the ranges holds it."""
    return any(first <= place <= last for first, last in ranges)
