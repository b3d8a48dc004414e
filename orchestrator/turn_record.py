"""What one model turn was sent and what came of it, kept in few bytes. Pure.

The texts are in the transcript already: a record holds only the places of what was shown and what
was left out, as ranges. A turn costs the same space however long its conversation is.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any

from pydantic import Field

from orchestrator.records import Record, Spans, Usage


class Compaction(Record):
    """An attempt to have older entries summarised. ``seq`` is the place of the summary, ``None`` if
    there is none, and then ``failure`` says why.
    """

    seq: int | None = None
    replaced: Spans
    usage: Usage | None = None
    latency_ms: int
    failure: str | None = None


class TurnRecord(Record):
    """One finished turn; ``turn`` counts from 0.

    ``dropped`` is by the rule that left it out; ``limit_tokens`` is what that rule allowed and
    ``counted_tokens`` what the prompt weighed, both by our count (``None``: not counted, since all
    of it fitted). ``api`` and ``model`` are those that answered, or failed last. ``failures`` are
    the model calls of this turn before. ``max_completion_tokens`` is what was left of the run's,
    ``max_output_tokens`` the cap of the model's route. ``server_uses`` is how often the provider's
    own tools had run before the turn. ``without`` names what the model refuses to be told.
    ``stop`` is ``None`` if the turn failed or the model was not asked.
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
    compactions: tuple[Compaction, ...] = ()
    server_uses: Mapping[str, int] = Field(default_factory=dict)
    without: tuple[str, ...] = ()
    stop: str | None = None
    usage: Usage | None = None

    @property
    def spent(self) -> Usage | None:
        """The usage, with that of its summaries; ``None`` if that of the turn is not known."""
        if self.usage is None:
            return None
        return reduce(Usage.plus, (one.usage for one in self.compactions), self.usage)


def spans(places: Iterable[int]) -> Spans:
    """The ranges that hold exactly these places."""
    found: list[tuple[int, int]] = []
    for place in sorted(places):
        if found and place == found[-1][1] + 1:
            found[-1] = (found[-1][0], place)
        else:
            found.append((place, place))
    return tuple(found)


def places(ranges: Spans) -> Iterator[int]:
    """The places that these ranges hold."""
    return (place for first, last in ranges for place in range(first, last + 1))


def is_within(place: int, ranges: Spans) -> bool:
    """Whether one of the ranges holds it."""
    return any(first <= place <= last for first, last in ranges)
