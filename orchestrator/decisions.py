"""What a decision is made of: the new aggregate, the events that tell it, the effects it needs.

Effects are data. The store writes all of them in the same atomic step as the aggregate.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.records import Aggregate, Entry, Message, Record, Run, Step, ToolCall


class EventType(StrEnum):
    """What the event log tells. One name per thing that a reader may wait for."""

    RUN_CREATED = "run.created"
    RUN_QUEUED = "run.queued"
    RUN_IN_PROGRESS = "run.in_progress"
    RUN_REQUIRES_ACTION = "run.requires_action"
    RUN_CANCELLING = "run.cancelling"
    RUN_CANCELLED = "run.cancelled"
    RUN_FAILED = "run.failed"
    RUN_COMPLETED = "run.completed"
    RUN_INCOMPLETE = "run.incomplete"
    RUN_EXPIRED = "run.expired"
    TURN_LOST = "turn.lost"
    STEP_CREATED = "step.created"
    STEP_COMPLETED = "step.completed"
    STEP_FAILED = "step.failed"
    STEP_CANCELLED = "step.cancelled"
    STEP_EXPIRED = "step.expired"
    MESSAGE_CREATED = "message.created"
    MESSAGE_COMPLETED = "message.completed"
    MESSAGE_INCOMPLETE = "message.incomplete"
    CALL_REQUIRED = "call.required"
    CALL_DISPATCHED = "call.dispatched"
    CALL_STARTED = "call.started"
    CALL_LOST = "call.lost"
    CALL_SETTLED = "call.settled"
    CALL_LATE = "call.late"


class Event(Record):
    """One line of a run's log: what happened, when, and the documents as they were after it.

    ``status`` is the run's own, ``public_status`` what clients were shown.
    """

    type: EventType
    at_ms: int
    status: str
    public_status: str
    run: Run | None = None
    step: Step | None = None
    call: ToolCall | None = None
    calls: tuple[ToolCall, ...] = ()
    message: Message | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class AppendEntry:
    """A new transcript entry (its ``seq`` is set)."""

    entry: Entry


class TimerKind(StrEnum):
    """What a timer is for; due timers become commands."""

    DEADLINE = "deadline"
    TURN_LEASE = "turn_lease"
    CANCEL_WATCHDOG = "cancel_watchdog"
    CALL_LEASE = "call_lease"


@dataclass(frozen=True, slots=True)
class TimerKey:
    """Which timer of a run is meant.

    Leases carry the generation that they were given for, so that whoever renews one and finds it
    missing knows that the turn or call is no longer his. ``call_id`` is set for call leases only.
    """

    kind: TimerKind
    generation: int = 0
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake somebody at ``at_ms``."""

    key: TimerKey
    at_ms: int


@dataclass(frozen=True, slots=True)
class ClearTimer:
    """The timer is not needed any more. Clearing one that is not set is harmless."""

    key: TimerKey


@dataclass(frozen=True, slots=True)
class QueueTurn:
    """A turn of the run is due: put it on the ready stream."""


@dataclass(frozen=True, slots=True)
class SendCall:
    """Hand the call to the workers of its queue. ``deadline_ms`` is the run's."""

    call_id: str
    queue: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class StopCall:
    """Take the call off its queue, or stop it on its worker."""

    call_id: str
    queue: str
    worker: str | None


Effect = AppendEntry | SetTimer | ClearTimer | QueueTurn | SendCall | StopCall


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one command. Nothing of it is true before it is committed."""

    aggregate: Aggregate
    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()
