"""A run's time as bars: where all of it went, and below that each turn and each call. Pure.

Everything is in thousandths of the run's time, the unit of the drawing.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from api.pages.rendering import milliseconds
from orchestrator.records import ToolCall
from orchestrator.story.time_spent import Place, Span
from orchestrator.story.words import as_call
from orchestrator.turn_record import TurnRecord

MAX_LANES: Final = 200
"""More would not be looked at."""


@dataclass(frozen=True, slots=True)
class Bar:
    """A part of a lane. ``kind`` decides its colour, ``text`` is what a pointer is shown."""

    kind: str
    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class Lane:
    """A turn or a call; ``target``: the id of the element with more about it."""

    label: str
    target: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Share:
    """How much of a run's time one kind of place took."""

    kind: str
    name: str
    time_ms: int
    percent: float


@dataclass(frozen=True, slots=True)
class Drawing:
    """The whole. ``total_ms`` is never 0."""

    total_ms: int
    bars: tuple[Bar, ...]
    shares: tuple[Share, ...]
    lanes: tuple[Lane, ...]
    is_cut: bool


def draw(
    created_ms: int,
    end_ms: int,
    spans: Sequence[Span],
    turns: Sequence[TurnRecord],
    calls: Sequence[ToolCall],
) -> Drawing:
    """The drawing of a run from its creation to ``end_ms``."""
    scale = _Scale(created_ms, max(end_ms - created_ms, 1))
    lanes = sorted(
        [*_turn_lanes(scale, turns, end_ms), *_call_lanes(scale, calls, end_ms)],
        key=lambda lane: lane.bars[0].x,
    )
    return Drawing(
        total_ms=scale.total_ms,
        bars=tuple(
            scale.bar(_kind(span.place), span.place, span.from_ms, span.to_ms) for span in spans
        ),
        shares=_shares(spans),
        lanes=tuple(lanes[:MAX_LANES]),
        is_cut=len(lanes) > MAX_LANES,
    )


@dataclass(frozen=True, slots=True)
class _Scale:
    created_ms: int
    total_ms: int

    def bar(self, kind: str, text: str, from_ms: int, to_ms: int) -> Bar:
        """At least as wide as can be seen."""
        x = 1000 * (from_ms - self.created_ms) / self.total_ms
        width = max(1000 * (to_ms - from_ms) / self.total_ms, 2.0)
        x = min(max(x, 0.0), 1000 - 2.0)
        told = f"{text}: {milliseconds(to_ms - from_ms)}"
        return Bar(kind, round(x, 2), round(min(width, 1000 - x), 2), told)


def _turn_lanes(scale: _Scale, turns: Sequence[TurnRecord], end_ms: int) -> Iterator[Lane]:
    for turn in turns:
        if turn.asked_ms is None:
            continue
        answered_ms = end_ms if turn.latency_ms is None else turn.asked_ms + turn.latency_ms
        bar = scale.bar("model", f"turn {turn.turn}", turn.asked_ms, answered_ms)
        yield Lane(f"turn {turn.turn}", f"turn-{turn.turn}", (bar,))


def _call_lanes(scale: _Scale, calls: Sequence[ToolCall], end_ms: int) -> Iterator[Lane]:
    for call in calls:
        finished_ms = call.finished_ms or end_ms
        begun_ms = finished_ms if call.started_ms is None else call.started_ms
        waits = "client" if call.queue is None else "tools-waiting"
        bars = [scale.bar(waits, "waits", call.created_ms, begun_ms)]
        if call.started_ms is not None:
            bars.append(scale.bar("tools-running", "runs", call.started_ms, finished_ms))
        yield Lane(as_call(call.name, call.arguments), f"call-{call.id}", tuple(bars))


def _shares(spans: Sequence[Span]) -> tuple[Share, ...]:
    times_ms = Counter[Place]()
    for span in spans:
        times_ms[span.place] += span.to_ms - span.from_ms
    total_ms = sum(times_ms.values()) or 1
    return tuple(
        Share(_kind(place), place, times_ms[place], 100 * times_ms[place] / total_ms)
        for place in Place
        if times_ms[place]
    )


def _kind(place: Place) -> str:
    return place.replace(" ", "-")
