"""Where the time of a run went, from its log."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from orchestrator.decisions import Event
from orchestrator.records import CallState, ToolCall
from orchestrator.states import FINAL, RunStatus


class Place(StrEnum):
    """What a run spends time on. Of several things at once, the last one here counts."""

    QUEUED = "queued"
    """For an engine, or for another run of its thread."""
    MODEL = "model"
    TOOLS_WAITING = "tools waiting"
    """For a worker, or for the next attempt."""
    TOOLS_RUNNING = "tools running"
    PEOPLE = "client"
    """The client has to answer a call, or somebody has to approve one."""


@dataclass(frozen=True, slots=True)
class Span:
    """A time in one place."""

    place: Place
    from_ms: int
    to_ms: int


def time_spent(events: Iterable[Event], now_ms: int) -> tuple[Span, ...]:
    """Where the run was from its creation to its end, or until now."""
    stays: list[tuple[Place | None, int]] = []
    for place, at_ms in _moves(events):
        if not stays or stays[-1][0] is not place:
            stays.append((place, at_ms))
    return tuple(
        Span(place, from_ms, to_ms)
        for (place, from_ms), (_, to_ms) in pairwise([*stays, (None, now_ms)])
        if place is not None and to_ms > from_ms
    )


def _moves(events: Iterable[Event]) -> Iterator[tuple[Place | None, int]]:
    """Where the run was after each event; ``None``: it has ended."""
    calls: dict[str, ToolCall] = {}
    for event in events:
        calls |= {call.id: call for call in (*event.calls, *([event.call] if event.call else []))}
        yield _place(event, [call.state for call in calls.values()]), event.at_ms


def _place(event: Event, states: Collection[CallState]) -> Place | None:
    if event.status in FINAL:
        return None
    if event.status == RunStatus.QUEUED:
        return Place.QUEUED
    if event.status != RunStatus.REQUIRES_ACTION:
        return Place.MODEL
    if event.public_status == RunStatus.REQUIRES_ACTION:
        return Place.PEOPLE
    return Place.TOOLS_RUNNING if CallState.STARTED in states else Place.TOOLS_WAITING
