"""Everything that can be asked of an aggregate. ``decide`` says what each one does.

Commands carry the ids they need: ids are minted in the shell, since minting reads a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from orchestrator.errors import LastErrorCode
from orchestrator.records import (
    CallState,
    Entry,
    Firing,
    Guarded,
    Json,
    Message,
    Metadata,
    RunSpec,
    Spans,
    ToolSpec,
    Usage,
)
from orchestrator.turn_record import TurnRecord


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to append; ``content`` in stored form (see ``records.Message``)."""

    id: str
    role: Literal["user", "assistant"]
    content: tuple[Json, ...]
    attachments: tuple[Json, ...] = ()
    metadata: Metadata = field(default_factory=dict)


class IfBusy(StrEnum):
    """What a client wants done while a run is active."""

    REJECT = "reject"
    """Refuse; nothing is changed."""
    ENQUEUE = "enqueue"
    """Wait until the active run has ended."""
    INTERRUPT = "interrupt"
    """Cancel the active run and wait for its end; what it has said stays."""
    ROLLBACK = "rollback"
    """Interrupt, and take what the active run added out of the transcript."""


@dataclass(frozen=True, slots=True)
class AddMessages:
    """A client adds messages to the thread. ``watchdog_ms``: see ``Cancel``."""

    messages: tuple[NewMessage, ...]
    if_busy: IfBusy = IfBusy.REJECT
    watchdog_ms: int = 0


@dataclass(frozen=True, slots=True)
class DeleteThread:
    """A client deletes the thread. Ends one run; to be repeated until the thread is gone."""


@dataclass(frozen=True, slots=True)
class ImportMessage:
    """A client adds a message of another server as it was there, with its id and its times.
    Refused while a run is active.
    """

    message: Message


@dataclass(frozen=True, slots=True)
class CreateRun:
    """A client starts a run. ``watchdog_ms``: see ``Cancel``. ``past``: entries of another thread,
    in their places there, with which a new one begins.
    """

    run_id: str
    spec: RunSpec
    ttl_ms: int
    metadata: Metadata = field(default_factory=dict)
    additional_messages: tuple[NewMessage, ...] = ()
    if_busy: IfBusy = IfBusy.REJECT
    watchdog_ms: int = 0
    past: tuple[Entry, ...] = ()


@dataclass(frozen=True, slots=True)
class StartTurn:
    """An engine takes the turn that is due. ``lease_ms`` is how long it may be silent."""

    engine: str
    lease_ms: int


@dataclass(frozen=True, slots=True)
class ApplyGuards:
    """Guardrails have looked at what is before ``until_seq``, and before any model was shown it.

    ``guarded`` get their places from us. A ``refusal`` is said to the client and ends the run.
    """

    generation: int
    until_seq: int
    guarded: tuple[Guarded, ...]
    firings: tuple[Firing, ...]
    message_id: str
    step_id: str
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class OpenMessage:
    """The model has begun to speak; its words follow in the log while it goes on."""

    generation: int
    message_id: str
    step_id: str


@dataclass(frozen=True, slots=True)
class OpenCalls:
    """The model has begun to ask for tools."""

    generation: int
    step_id: str


@dataclass(frozen=True, slots=True)
class Compact:
    """Older entries are summarised before the model is asked. ``replaces``: their places; ``text``
    is ``None`` if the attempt came to nothing; its ``usage`` was paid for all the same.
    ``record``: of the turn so far; the summary's place is added to it.
    """

    generation: int
    text: str | None
    replaces: Spans
    usage: Usage | None
    record: TurnRecord | None = None


class Stop(StrEnum):
    """Why the model stopped speaking."""

    DONE = "done"
    TOOLS = "tools"
    LENGTH = "length"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that the model asked for. ``refusal`` is set by the shell's check of the arguments:
    the text that the model is answered with instead of a tool's output. ``asked_arguments``: the
    model's own, where a guardrail has put others in their place.
    """

    call_id: str
    name: str
    arguments: str
    provider_id: str | None = None
    refusal: str | None = None
    asked_arguments: str | None = None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The model's reply. ``tools`` are the published tools among those that the run declares.

    ``failed_attempts``: model calls of this turn that failed before this one succeeded. The ids of
    a message or step that was opened before are not used. ``counted_tokens``: what the prompt
    weighs by our own count. ``server_uses``: how often the provider's own tools have run in it;
    ``blocks``: see ``CallRound``.
    """

    generation: int
    text: str | None
    calls: tuple[ProposedCall, ...]
    stop: Stop
    usage: Usage | None
    message_id: str
    message_step_id: str
    calls_step_id: str
    tools: Mapping[str, ToolSpec] = field(default_factory=dict)
    failed_attempts: int = 0
    refusal: str | None = None
    firings: tuple[Firing, ...] = ()
    counted_tokens: int | None = None
    server_uses: Mapping[str, int] = field(default_factory=dict)
    blocks: tuple[Json, ...] = ()
    record: TurnRecord | None = None


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The model call failed for good."""

    generation: int
    code: LastErrorCode
    message: str
    failed_attempts: int = 0
    record: TurnRecord | None = None


@dataclass(frozen=True, slots=True)
class RunOut:
    """The model is not asked: what must be shown to it is more than the run may still use."""

    generation: int
    message: str
    record: TurnRecord | None = None


@dataclass(frozen=True, slots=True)
class RequeueTurn:
    """The turn's engine is gone, or hands it back. ``generation`` is the one that is given up.

    ``failed_attempts``: model calls that failed before it was handed back.
    """

    generation: int
    failed_attempts: int = 0
    record: TurnRecord | None = None


@dataclass(frozen=True, slots=True)
class ClaimCall:
    """A worker takes a call. ``lease_ms`` is how long it may be silent. ``nonce`` is this one
    execution's own: a claim that is repeated under it, since its answer was lost, counts once.
    """

    call_id: str
    worker: str
    lease_ms: int
    nonce: str | None = None


class Outcome(StrEnum):
    """How an execution ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class CallResult:
    """A worker answers a call. ``text`` is what the model reads, an error as JSON.

    ``full``: the whole output where the model is shown a part. ``drift``: how its JSON shape
    differs from that of the tool's last one.
    """

    call_id: str
    generation: int
    outcome: Outcome
    text: str
    error: str | None = None
    full: str | None = None
    drift: str | None = None


@dataclass(frozen=True, slots=True)
class CallProgress:
    """A tool says how far it is."""

    call_id: str
    generation: int
    text: str


@dataclass(frozen=True, slots=True)
class RetryCall:
    """A tool failed in a way that its author says may pass. ``text`` is what the model reads if it
    was started often enough; ``after_ms`` is the author's pause, ``None`` for ours.
    """

    call_id: str
    generation: int
    text: str
    error: str
    after_ms: int | None = None


@dataclass(frozen=True, slots=True)
class SendAgain:
    """The pause before the next attempt of a call is over."""

    call_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class PostponeCall:
    """A worker may not start the call just now. ``generation`` is the one of before a claim."""

    call_id: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class CheckWait:
    """A call has been waiting for a worker. ``served``: the queues that live workers listen to;
    ``patience_ms``: how long a call may wait for one that has none.
    """

    call_id: str
    generation: int
    served: frozenset[str]
    patience_ms: int


@dataclass(frozen=True, slots=True)
class CallLost:
    """The execution under this generation ended without a result (its worker died or is silent)."""

    call_id: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True)
class SubmitOutputs:
    """The client answers all calls that wait for it. ``outputs`` in the order of the request, so
    that an id given twice is seen.
    """

    outputs: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Approval:
    """The answer to one call that waits for it. ``arguments``: to be used instead of the model's;
    ``reason``: what the model is told of a rejection.
    """

    call_id: str
    is_approved: bool
    arguments: str | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class AnswerApprovals:
    """A client or an operator approves or rejects calls: all that are named, or none."""

    approvals: tuple[Approval, ...]


@dataclass(frozen=True, slots=True)
class TimeOutApproval:
    """A call has waited for its approval as long as it may."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ResolveCall:
    """An operator answers an open call of any kind with this text, and says how it ended.
    ``arguments``: those that the answer belongs to, if not the model's.
    """

    call_id: str
    text: str
    state: Literal[CallState.SUCCEEDED, CallState.FAILED, CallState.CANCELLED] = CallState.SUCCEEDED
    arguments: str | None = None


@dataclass(frozen=True, slots=True)
class RequeueCall:
    """An operator lets workers start an open call again, whatever its side effects."""

    call_id: str


@dataclass(frozen=True, slots=True)
class ModifyRun:
    """The client replaces the run's metadata. Allowed in every status."""

    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Cancel:
    """The client asks the run to stop. ``watchdog_ms``: confirmed without an engine after that."""

    watchdog_ms: int


@dataclass(frozen=True, slots=True)
class ConfirmCancel:
    """The engine has let go of the model call, or the watchdog has waited long enough."""


@dataclass(frozen=True, slots=True)
class Expire:
    """The deadline has passed."""


Command = (
    AddMessages
    | ImportMessage
    | DeleteThread
    | CreateRun
    | StartTurn
    | ApplyGuards
    | OpenMessage
    | OpenCalls
    | Compact
    | TurnResult
    | TurnFailed
    | RunOut
    | RequeueTurn
    | ClaimCall
    | CallResult
    | CallProgress
    | RetryCall
    | SendAgain
    | PostponeCall
    | CheckWait
    | CallLost
    | SubmitOutputs
    | AnswerApprovals
    | TimeOutApproval
    | ResolveCall
    | RequeueCall
    | ModifyRun
    | Cancel
    | ConfirmCancel
    | Expire
)
