"""What a decision is made of: the new aggregate, the events that tell it, the effects it needs.

Effects are data. The store writes all of them in the same atomic step as the aggregate.
"""

from dataclasses import dataclass
from enum import StrEnum

from orchestrator.receipts import Remember
from orchestrator.records import (
    Aggregate,
    Entry,
    Json,
    Message,
    Record,
    Run,
    RunSpec,
    Step,
    Tally,
    ToolCall,
)
from orchestrator.turn_record import TurnRecord


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
    TURN_COMPACTED = "turn.compacted"
    GUARD_FIRED = "guard.fired"
    STEP_CREATED = "step.created"
    STEP_DELTA = "step.delta"
    STEP_COMPLETED = "step.completed"
    STEP_FAILED = "step.failed"
    STEP_CANCELLED = "step.cancelled"
    STEP_EXPIRED = "step.expired"
    MESSAGE_CREATED = "message.created"
    MESSAGE_DELTA = "message.delta"
    MESSAGE_COMPLETED = "message.completed"
    MESSAGE_INCOMPLETE = "message.incomplete"
    CALL_REQUIRED = "call.required"
    CALL_AWAITING_APPROVAL = "call.awaiting_approval"
    CALL_APPROVED = "call.approved"
    CALL_DISPATCHED = "call.dispatched"
    CALL_STARTED = "call.started"
    CALL_PROGRESS = "call.progress"
    CALL_RETRYING = "call.retrying"
    CALL_LOST = "call.lost"
    CALL_SETTLED = "call.settled"
    CALL_LATE = "call.late"


class Event(Record):
    """One line of a run's log: what happened, when, and the documents as they were after it.

    ``status`` is the run's own, ``public_status`` what clients were shown. ``delta`` is a piece of
    what the model says: ``{"message_id": "msg_1", "text": "Hel", "is_first": true}``, a refusal:
    ``{"message_id": "msg_1", "index": 0, "refusal": "No."}``, or of a call:
    ``{"step_id": "step_1", "index": 0, "call_id": "call_1", "name": "add", "arguments": ""}``,
    where only the first piece of a call has its id and name.
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
    delta: Json | None = None
    detail: str | None = None


@dataclass(frozen=True, slots=True)
class PutEntry:
    """Write a transcript entry at its ``seq``: a new one, or what a message has become."""

    entry: Entry


@dataclass(frozen=True, slots=True)
class DropEntries:
    """Take the transcript entries from ``from_seq`` on, before ``until_seq``, away again."""

    from_seq: int
    until_seq: int


@dataclass(frozen=True, slots=True)
class AddRun:
    """Write a run that waits for the decision's own one to end, with the events of its creation."""

    run: Run
    spec: RunSpec
    events: tuple[Event, ...]


class TimerKind(StrEnum):
    """What a timer is for; due timers become commands."""

    DEADLINE = "deadline"
    TURN_LEASE = "turn_lease"
    CANCEL_WATCHDOG = "cancel_watchdog"
    CALL_LEASE = "call_lease"
    CALL_RETRY = "call_retry"
    CALL_WAIT = "call_wait"
    CALL_APPROVAL = "call_approval"
    DELETION = "deletion"
    """Of a thread that is gone: what is left of it is to be removed."""


@dataclass(frozen=True, slots=True)
class TimerKey:
    """Which timer of a run is meant.

    Leases carry the generation that they were given for, so that whoever renews one and finds it
    missing knows that the turn or call is no longer his. ``call_id`` is set for timers of calls.
    """

    kind: TimerKind
    generation: int = 0
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class SetTimer:
    """Wake somebody at ``at_ms``. ``run_id``: another run's timer; empty: the thread's own."""

    key: TimerKey
    at_ms: int
    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class ClearTimer:
    """The timer is not needed any more. Clearing one that is not set is harmless."""

    key: TimerKey


@dataclass(frozen=True, slots=True)
class QueueTurn:
    """A turn of the run, or of the other one that is named, is due: put it on the ready stream."""

    run_id: str | None = None


@dataclass(frozen=True, slots=True)
class SendCall:
    """Hand the call to the workers of its queue. ``deadline_ms`` is the run's.

    ``is_repeat``: it should be there already, so only if the queue has lost it.
    """

    call_id: str
    queue: str
    deadline_ms: int
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class StopCall:
    """Take the call off its queue, or stop it on its worker."""

    call_id: str
    queue: str
    worker: str | None


@dataclass(frozen=True, slots=True)
class KeepOutput:
    """Keep the whole of an output that the model is shown in part."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class KeepTurn:
    """Keep what a turn was sent and what came of it."""

    record: TurnRecord


@dataclass(frozen=True, slots=True)
class CountUsage:
    """Add to the sums of this tenant and model: to those of the day, and to those of all time."""

    tenant: str
    model: str
    at_ms: int
    tally: Tally


@dataclass(frozen=True, slots=True)
class RetireLog:
    """The run's log is complete: it may go when its retention is over."""


Effect = (
    PutEntry
    | DropEntries
    | AddRun
    | SetTimer
    | ClearTimer
    | QueueTurn
    | SendCall
    | StopCall
    | KeepOutput
    | KeepTurn
    | CountUsage
    | RetireLog
)


@dataclass(frozen=True, slots=True)
class Decision:
    """The outcome of one command. Nothing of it is true before it is committed."""

    aggregate: Aggregate
    events: tuple[Event, ...] = ()
    effects: tuple[Effect, ...] = ()
    remember: Remember | None = None
    """Set by the shell, for a request that its client may repeat."""
