"""Everything that can be asked of an aggregate. ``decide`` says what each one does.

Commands carry the ids they need: ids are minted in the shell, since minting reads a clock.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Literal

from orchestrator.errors import LastErrorCode
from orchestrator.records import Json, Metadata, RunSpec, ToolSpec, Usage


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A message to append; ``content`` in stored form (see ``records.Message``)."""

    id: str
    role: Literal["user", "assistant"]
    content: tuple[Json, ...]
    attachments: tuple[Json, ...] = ()
    metadata: Metadata = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AddMessages:
    """A client adds messages to the thread. Refused while a run is active."""

    messages: tuple[NewMessage, ...]


@dataclass(frozen=True, slots=True)
class CreateRun:
    """A client starts a run. Refused while another one is active; then nothing is appended."""

    run_id: str
    spec: RunSpec
    ttl_ms: int
    metadata: Metadata = field(default_factory=dict)
    additional_messages: tuple[NewMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class StartTurn:
    """An engine takes the turn that is due. ``lease_ms`` is how long it may be silent."""

    engine: str
    lease_ms: int


class Stop(StrEnum):
    """Why the model stopped speaking."""

    DONE = "done"
    TOOLS = "tools"
    LENGTH = "length"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that the model asked for. ``refusal`` is set by the shell's check of the arguments:
    the text that the model is answered with instead of a tool's output.
    """

    call_id: str
    name: str
    arguments: str
    provider_id: str | None = None
    refusal: str | None = None


@dataclass(frozen=True, slots=True)
class TurnResult:
    """The model's reply. ``tools`` are the published tools among those that the run declares.

    ``failed_attempts``: model calls of this turn that failed before this one succeeded.
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


@dataclass(frozen=True, slots=True)
class TurnFailed:
    """The model call failed for good."""

    generation: int
    code: LastErrorCode
    message: str
    failed_attempts: int = 0


@dataclass(frozen=True, slots=True)
class RequeueTurn:
    """The turn's engine is gone, or hands it back. ``generation`` is the one that is given up."""

    generation: int


@dataclass(frozen=True, slots=True)
class ClaimCall:
    """A worker takes a call. ``lease_ms`` is how long it may be silent."""

    call_id: str
    worker: str
    lease_ms: int


class Outcome(StrEnum):
    """How an execution ended."""

    SUCCEEDED = "succeeded"
    FAILED = "failed"
    TIMED_OUT = "timed_out"


@dataclass(frozen=True, slots=True)
class CallResult:
    """A worker answers a call. ``text`` is what the model reads, an error as JSON."""

    call_id: str
    generation: int
    outcome: Outcome
    text: str
    error: str | None = None


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
class ResolveCall:
    """An operator answers an open call of any kind with this text."""

    call_id: str
    text: str


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
    | CreateRun
    | StartTurn
    | TurnResult
    | TurnFailed
    | RequeueTurn
    | ClaimCall
    | CallResult
    | CallLost
    | SubmitOutputs
    | ResolveCall
    | ModifyRun
    | Cancel
    | ConfirmCancel
    | Expire
)
