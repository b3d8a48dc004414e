"""What happened to a run, line by line."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from orchestrator.decisions import Event, EventType
from orchestrator.records import Executor, ToolCall
from orchestrator.story.words import as_call, duration, one_line

_NOT_TOLD: Final = frozenset(
    {
        EventType.RUN_CREATED,
        EventType.MESSAGE_CREATED,
        EventType.MESSAGE_DELTA,
        *(kind for kind in EventType if kind.startswith(("step.", "call."))),
    }
) - {EventType.CALL_LOST}
"""What is told of them is told by others; what else happens to calls is told from the ledger."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One thing that happened. ``at_ms`` is of the store's clock."""

    at_ms: int
    subject: str
    text: str


def timeline(calls: Iterable[ToolCall], events: Iterable[Event]) -> list[Happening]:
    """All that happened so far, oldest first. Later, only more is added to it."""
    named = [(as_call(call.name, call.arguments), call) for call in calls]
    # In this order within a millisecond: an answer makes a status, a status makes a call.
    told = [happening for name, call in named for happening in _ending(name, call)]
    told += [_event(event) for event in events if event.type not in _NOT_TOLD]
    told += [happening for name, call in named for happening in _beginning(name, call)]
    return sorted(told, key=lambda happening: happening.at_ms)


def _event(event: Event) -> Happening:
    subject, what = event.type.split(".", 1)
    if subject == "run" and event.public_status != event.status:
        what = f"{what} (clients see {event.public_status})"
    if event.detail:
        what = f"{what}: {one_line(event.detail)}"
    return Happening(event.at_ms, subject, what)


def _beginning(name: str, call: ToolCall) -> list[Happening]:
    to_approve = ", to be approved" if call.approve_by_ms is not None else ""
    story = [Happening(call.created_ms, "call", f"{name} asked for{to_approve}")]
    if call.executor is Executor.REFUSED:
        story.append(Happening(call.created_ms, "call", f"{name} refused{_error(call)}"))
    if call.approved_ms is not None:
        story.append(Happening(call.approved_ms, "call", f"{name} approved"))
    if call.started_ms is not None:
        attempt = f", attempt {call.attempts}" if call.attempts > 1 else ""
        on = f"{name} started on {call.worker}{attempt}"
        story.append(Happening(call.started_ms, "call", on))
    return story


def _ending(name: str, call: ToolCall) -> list[Happening]:
    story = [
        Happening(late.at_ms, "call", f"{name} came late and was not used") for late in call.late
    ]
    if call.finished_ms is not None and call.executor is not Executor.REFUSED:
        took = duration((call.finished_ms - (call.started_ms or call.created_ms)) / 1000)
        by = call.worker or call.executor
        text = f"{name} {call.state} after {took}, by {by}{_error(call)}"
        story.append(Happening(call.finished_ms, "call", text))
    return story


def _error(call: ToolCall) -> str:
    return f": {one_line(call.error.splitlines()[0])}" if call.error else ""
