"""What one model turn was sent and what came of it, kept in few bytes. Pure.

The texts are in the transcript already: a record holds only the places of what was shown and what
was left out, as ranges. A turn costs the same space however long its conversation is.

It is written before the model is asked, and again with each thing that comes of it. So whoever ends
a turn, and whatever dies: what was sent is known.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import reduce
from typing import Any, Final, Self

from pydantic import Field

from orchestrator.records import Record, Run, Spans, Usage

UNANSWERED: Final = "It has not been answered."
"""What is said of a summary as long as nothing has come of it."""


class Compaction(Record):
    """An attempt to have older entries summarised. ``seq`` is the place of the summary, ``None`` if
    there is none, and then ``failure`` says why. ``latency_ms`` is ``None`` until it has ended.
    """

    seq: int | None = None
    replaced: Spans
    usage: Usage | None = None
    latency_ms: int | None = None
    failure: str | None = None


class TurnRecord(Record):
    """One turn; ``turn`` counts from 0.

    ``dropped`` is by the rule that left it out; ``limit_tokens`` is what that rule allowed and
    ``counted_tokens`` what the prompt weighed, both by our count (``None``: not counted, since all
    of it fitted). ``api`` and ``model`` are those that were asked last. ``failures`` are the model
    calls of this turn that failed. ``max_completion_tokens`` is what was left of the run's,
    ``max_output_tokens`` the cap of the model's route. ``server_uses`` is how often the provider's
    own tools had run before the turn. ``without`` names what the model refuses to be told.
    ``continuations`` is how often an answer that paused was asked to go on: with the same request,
    and all that it had said so far behind it.
    ``asked_ms`` is ``None`` if the model was not asked, ``latency_ms`` if the last request has
    neither been answered nor failed, ``stop`` if it was not answered.
    """

    turn: int
    generation: int
    api: str
    model: str
    tool_choice: Any
    max_completion_tokens: int | None
    max_output_tokens: int
    shown: Spans = ()
    dropped: Mapping[str, Spans] = Field(default_factory=dict)
    limit_tokens: int | None = None
    counted_tokens: int | None = None
    asked_ms: int | None = None
    latency_ms: int | None = None
    failures: tuple[str, ...] = ()
    compactions: tuple[Compaction, ...] = ()
    server_uses: Mapping[str, int] = Field(default_factory=dict)
    without: tuple[str, ...] = ()
    continuations: int = 0
    stop: str | None = None
    usage: Usage | None = None

    @property
    def has_prompt(self) -> bool:
        """Whether it is known what the model was, or would have been, shown."""
        return self.asked_ms is not None or bool(self.shown)

    @property
    def spent(self) -> Usage | None:
        """The usage, with that of its summaries; ``None`` if that of the turn is not known."""
        if self.usage is None:
            return None
        return reduce(Usage.plus, (one.usage for one in self.compactions), self.usage)

    def with_summary_at(self, seq: int) -> Self:
        """The record, with the place of the summary that was made last."""
        *others, last = self.compactions
        return self.but(compactions=(*others, last.but(seq=seq)))

    def as_ended_with(self, run: Run) -> Self:
        """The record, with the end of a request that was aborted when its run ended: nobody has
        written that down, since nothing is written of a run that has ended.
        """
        is_open = self.asked_ms is not None and self.latency_ms is None
        if not is_open or run.ended_ms is None:
            return self
        latency_ms = max(run.ended_ms - (self.asked_ms or 0), 0)
        return self.but(latency_ms=latency_ms, stop=f"run_{run.status}")


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
