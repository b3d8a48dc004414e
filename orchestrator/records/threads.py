"""Assistants, threads, and what is said on them: the transcript is the only memory."""

from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.records.guards import Guarded
from orchestrator.records.record import DEFAULT_TENANT, Json, Metadata, Record
from orchestrator.records.tallies import Tally

# -- assistants and threads ----------------------------------------------------------------------


class Assistant(Record):
    """Defaults for runs. A run copies what it needs, so a later change does not touch it.
    ``tenant``: who it belongs to, or ``EVERYBODY``.
    """

    id: str
    created_ms: int
    model: str
    name: str | None = None
    description: str | None = None
    instructions: str | None = None
    tools: tuple[Json, ...] = ()
    tool_resources: Json | None = None
    metadata: Metadata = {}
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    response_format: Any = "auto"
    reasoning_effort: str | None = None
    tenant: str = DEFAULT_TENANT


class Thread(Record):
    """A conversation, and the part of its state that commands change.

    ``next_seq`` is the place of the next transcript entry; ``active_run_id`` is the lock, and
    ``active_from_seq`` the first place of what the active run adds; guardrails have looked at what
    is before ``guarded_seq``. ``waiting`` is served in order when the lock is free. ``spent`` is
    what its runs used. ``tenant``: who it belongs to, with all that is in it, for ever.
    ``is_deleted`` is decided, never stored.
    """

    id: str
    created_ms: int
    metadata: Metadata = {}
    tool_resources: Json | None = None
    active_run_id: str | None = None
    active_from_seq: int = 0
    next_seq: int = 0
    guarded_seq: int = 0
    waiting: tuple["Waiting", ...] = ()
    spent: Tally = Tally()
    tenant: str = DEFAULT_TENANT
    is_deleted: bool = False


# -- the transcript: the only memory -------------------------------------------------------------


class MessageStatus(StrEnum):
    """How far a message is; only an assistant's answer is ever not ``completed``."""

    IN_PROGRESS = "in_progress"
    INCOMPLETE = "incomplete"
    COMPLETED = "completed"


class Message(Record):
    """Something said. ``content`` holds parts as the API shows them:
    ``[{"type": "text", "text": {"value": "Hello", "annotations": []}}]``.

    ``turn`` is the model turn that said it. ``is_void``: the turn was lost half-way and played
    again; readers have seen this attempt, the model is not shown it.
    """

    kind: Literal["message"] = "message"
    seq: int
    id: str
    thread_id: str
    created_ms: int
    role: Literal["user", "assistant"]
    content: tuple[Json, ...]
    attachments: tuple[Json, ...] = ()
    metadata: Metadata = {}
    assistant_id: str | None = None
    run_id: str | None = None
    turn: int | None = None
    is_void: bool = False
    status: MessageStatus = MessageStatus.COMPLETED
    incomplete_reason: str | None = None
    completed_ms: int | None = None
    incomplete_ms: int | None = None


class Waiting(Record):
    """What waits for the active run to end: messages (without a place yet), and the run that is to
    follow them, if one is named.
    """

    messages: tuple[Message, ...] = ()
    run_id: str | None = None


class CallRound(Record):
    """The model asked for these calls in one turn. ``calls`` is in the model's order.

    ``blocks`` is the whole turn as its provider wrote it, where it holds what only the provider can
    read: what its own tools have found, and thoughts with their signatures.
    """

    kind: Literal["calls"] = "calls"
    seq: int
    run_id: str
    turn: int
    calls: tuple["AskedCall", ...]
    blocks: tuple[Json, ...] = ()


class AskedCall(Record):
    """One call as the model wrote it; ``arguments`` is the raw string, valid JSON or not.

    ``is_pinned``: its tool wants the output kept, whatever is left out.
    """

    call_id: str
    name: str
    arguments: str
    is_pinned: bool = False


class Output(Record):
    """The answer to one call, as the model reads it. Entries arrive in the order of completion.

    ``arguments``: those that a guardrail or an operator put in the place of the model's own.
    """

    kind: Literal["output"] = "output"
    seq: int
    run_id: str
    call_id: str
    text: str
    arguments: str | None = None


Spans = tuple[tuple[int, int], ...]
"""Places in the transcript as ranges, both ends included: ``((0, 3), (7, 7))``."""


class Summary(Record):
    """What a model wrote of older entries. Models are shown it in the place of what it
    ``replaces``, which stays in the transcript. ``turn`` is the one before which it was written.
    """

    kind: Literal["summary"] = "summary"
    seq: int
    run_id: str
    turn: int
    text: str
    replaces: Spans


Entry = Annotated[Message | CallRound | Output | Summary | Guarded, Field(discriminator="kind")]
