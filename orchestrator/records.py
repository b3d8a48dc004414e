"""What is stored: every document of the system, as the core knows it.

Documents are frozen; a change is a copy. Times are integer milliseconds of the store's clock, names
end in ``_ms``. JSON that only travels through us (tools, metadata, content parts) is kept as it
came. ``Aggregate`` is what one command may read and change; everything in it is committed together.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field

from orchestrator.errors import LastErrorCode
from orchestrator.states import RunStatus, is_final

Json = dict[str, Any]
Metadata = dict[str, str]


class Record(BaseModel):
    """The manner of all documents: frozen, tolerant of fields that a newer version wrote."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    def but(self, **changes: Any) -> Self:
        """A copy with these fields changed (not validated: only our own code calls it)."""
        return self.model_copy(update=changes)


# -- assistants and threads ----------------------------------------------------------------------


class Assistant(Record):
    """Defaults for runs. A run copies what it needs, so a later change does not touch it."""

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


class Thread(Record):
    """A conversation, and the part of its state that commands change.

    ``next_seq`` is the place of the next transcript entry; ``active_run_id`` is the lock, and
    ``active_from_seq`` the first place of what the active run adds. ``waiting`` is served in order
    when the lock is free. ``is_deleted`` is decided, never stored.
    """

    id: str
    created_ms: int
    metadata: Metadata = {}
    tool_resources: Json | None = None
    active_run_id: str | None = None
    active_from_seq: int = 0
    next_seq: int = 0
    waiting: tuple["Waiting", ...] = ()
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
    """The model asked for these calls in one turn. ``calls`` is in the model's order."""

    kind: Literal["calls"] = "calls"
    seq: int
    run_id: str
    turn: int
    calls: tuple["AskedCall", ...]


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

    ``arguments``: those that an operator put in the place of the model's own.
    """

    kind: Literal["output"] = "output"
    seq: int
    run_id: str
    call_id: str
    text: str
    arguments: str | None = None


Entry = Annotated[Message | CallRound | Output, Field(discriminator="kind")]


# -- the run -------------------------------------------------------------------------------------


class Usage(Record):
    """Tokens as the provider counted them. ``None`` in its place: the provider did not say.

    ``cached_tokens`` are those of the prompt that the provider had in its cache.
    """

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0

    @property
    def total_tokens(self) -> int:
        """Both together."""
        return self.prompt_tokens + self.completion_tokens

    def plus(self, other: "Usage | None") -> "Usage":
        """The sum; an unknown usage adds nothing."""
        if other is None:
            return self
        return Usage(
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
        )


class Price(Record):
    """What a model costs, in US dollars per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None

    def of(self, usage: Usage) -> float:
        """The cost in dollars; cached tokens cost as much as others if nothing is said of them."""
        cached = self.prompt if self.cached is None else self.cached
        fresh_tokens = usage.prompt_tokens - usage.cached_tokens
        micros = (
            fresh_tokens * self.prompt
            + usage.cached_tokens * cached
            + usage.completion_tokens * self.completion
        )
        return micros / 1_000_000


class RunSpec(Record):
    """What the run was asked to do. Written once, at creation.

    From ``max_turns`` on: the operator's limits of a run, and the price of its model if known.
    """

    assistant_id: str
    model: str
    instructions: str = ""
    tools: tuple[Json, ...] = ()
    tool_resources: Json | None = None
    temperature: float | None = 1.0
    top_p: float | None = 1.0
    max_prompt_tokens: int | None = None
    max_completion_tokens: int | None = None
    truncation_strategy: Json = {"type": "auto", "last_messages": None}
    tool_choice: Any = "auto"
    parallel_tool_calls: bool = True
    response_format: Any = "auto"
    reasoning_effort: str | None = None
    max_turns: int = 50
    max_tool_calls: int | None = None
    max_repeated_calls: int | None = None
    max_total_tokens: int | None = None
    max_cost_usd: float | None = None
    price: Price | None = None

    def function_names(self) -> tuple[str, ...]:
        """The names of the function tools that this run declares."""
        return tuple(t["function"]["name"] for t in self.tools if t.get("type") == "function")


class LastError(Record):
    """Why a run or step failed."""

    code: LastErrorCode
    message: str


IncompleteReason = Literal["max_completion_tokens", "max_prompt_tokens"]


class Run(Record):
    """The state of a run: all that changes during its life.

    ``turns`` counts model turns that ended; ``failed_attempts`` counts model calls that failed and
    were repeated. ``token_ratio``: tokens by the provider's count for each one by ours.
    ``generation`` rises with each ``start_turn`` and fences engines; ``engine`` is who holds the
    turn now. ``incomplete_message`` says in words what was used up. ``rolls_back``: somebody asked
    that what it adds to the transcript goes when it ends.
    """

    id: str
    thread_id: str
    status: RunStatus
    created_ms: int
    deadline_ms: int
    updated_ms: int
    started_ms: int | None = None
    cancelled_ms: int | None = None
    failed_ms: int | None = None
    completed_ms: int | None = None
    metadata: Metadata = {}
    last_error: LastError | None = None
    incomplete_reason: IncompleteReason | None = None
    incomplete_message: str | None = None
    usage: Usage | None = None
    generation: int = 0
    engine: str | None = None
    turns: int = 0
    failed_attempts: int = 0
    token_ratio: float = 1.0
    next_step: int = 0
    rolls_back: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return is_final(self.status)

    @property
    def is_rolled_back(self) -> bool:
        """Whether what it added is gone. An answer that was complete before that stays."""
        return self.rolls_back and self.is_final and self.status is not RunStatus.COMPLETED


class StepStatus(StrEnum):
    """How far a step is. All but ``in_progress`` are final."""

    IN_PROGRESS = "in_progress"
    CANCELLED = "cancelled"
    FAILED = "failed"
    COMPLETED = "completed"
    EXPIRED = "expired"


class Step(Record):
    """One thing that the run did: wrote a message, or asked for tools (``index`` counts from 0).

    ``turn`` is the model turn that did it, ``message_seq`` the place of its message.
    """

    id: str
    index: int
    turn: int = 0
    type: Literal["message_creation", "tool_calls"]
    status: StepStatus
    created_ms: int
    message_id: str | None = None
    message_seq: int | None = None
    call_ids: tuple[str, ...] = ()
    completed_ms: int | None = None
    failed_ms: int | None = None
    cancelled_ms: int | None = None
    expired_ms: int | None = None
    last_error: LastError | None = None
    usage: Usage | None = None


# -- the ledger of tool calls --------------------------------------------------------------------


class Executor(StrEnum):
    """Who answers a call."""

    CLIENT = "client"
    WORKER = "worker"
    REFUSED = "refused"
    """Nobody: we answer it ourselves with an error (unknown name, arguments that do not fit)."""


class CallState(StrEnum):
    """Where a tool call is. The last five are final."""

    REQUIRED = "required"
    """Waits for the client."""
    AWAITING_APPROVAL = "awaiting_approval"
    """Waits for somebody to approve or reject it; no worker knows of it."""
    DISPATCHED = "dispatched"
    """On the outbox or on the queue; no worker has claimed it."""
    STARTED = "started"
    """Claimed by a worker under the current generation."""
    RETRYING = "retrying"
    """Waits a while before it is sent again."""
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    """Answered with an error: refused, rejected, raised, or lost more often than allowed."""
    TIMED_OUT = "timed_out"
    CANCELLED = "cancelled"
    """The run ended first."""
    UNKNOWN = "unknown"
    """Its worker died, and its author did not say that repeating it is harmless."""


SideEffects = Literal["none", "idempotent", "once"]

Isolation = Literal["process", "inline"]

NeedsApproval = Literal["none", "required"]


class LateResult(Record):
    """A result that came when the call was no longer open. Kept for the record, never applied."""

    at_ms: int
    generation: int
    text: str


class ToolCall(Record):
    """One record of the ledger, keyed by the id that we minted.

    ``provider_id`` is what the model called it (models repeat ids). ``generation`` rises with each
    claim; a result counts only under the current one. ``allowed_again`` counts repetitions beyond
    what the tool's side effects allow, which its author (by ``Retry``) or an operator asked for.
    ``nonce`` is that of the last claim, ``answered`` the last generation whose tool has answered.
    ``progress`` is what the tool last said of itself. ``output_seq`` is the transcript entry that
    holds the output, ``has_full_output``: the model was shown a part, the rest is kept beside it;
    ``drift``: how the output's JSON shape differs from that of the tool's last one. ``deadline_ms``
    is when the tool must have ended, set by the claim. ``approve_by_ms``: it waits so long to be
    approved and never starts before; ``asked_arguments``: the model's, if an operator edited them.
    """

    id: str
    provider_id: str | None = None
    step_id: str
    index: int
    name: str
    arguments: str
    executor: Executor
    state: CallState
    created_ms: int
    generation: int = 0
    nonce: str | None = None
    answered: int = 0
    attempts: int = 0
    max_attempts: int = 1
    allowed_again: int = 0
    side_effects: SideEffects = "once"
    on_unknown: Literal["tell_model", "hold"] = "tell_model"
    queue: str | None = None
    timeout_s: float = 60.0
    worker: str | None = None
    dispatched_ms: int | None = None
    started_ms: int | None = None
    finished_ms: int | None = None
    deadline_ms: int | None = None
    approve_by_ms: int | None = None
    approved_ms: int | None = None
    asked_arguments: str | None = None
    output_seq: int | None = None
    has_full_output: bool = False
    drift: str | None = None
    progress: str | None = None
    error: str | None = None
    late: tuple[LateResult, ...] = ()

    @property
    def is_settled(self) -> bool:
        """Whether the model can be told: it has an output. A held ``unknown`` call has none."""
        return self.output_seq is not None


class ToolSpec(Record):
    """A tool as its worker publishes it.

    ``parameters`` is a JSON Schema object; ``isolation``: each call has a process of its own, or
    all share the event loop of one; ``timeout_s`` is per attempt; ``cleanup_s``: what a tool that
    is stopped may take to end; ``max_concurrency``: executions at once, over all hosts;
    ``output_limit_bytes`` is how much of an output the model is shown; ``pin_result``: it is never
    left out of the conversation; ``approval_timeout_s``: how long a call waits to be approved.
    """

    name: str
    description: str = ""
    parameters: Json = {"type": "object", "properties": {}}
    queue: str = "tools"
    isolation: Isolation = "process"
    timeout_s: float = 60.0
    cleanup_s: float = 2.0
    max_concurrency: int | None = None
    side_effects: SideEffects = "once"
    max_attempts: int = 3
    on_unknown: Literal["tell_model", "hold"] = "tell_model"
    output_limit_bytes: int = 32_768
    pin_result: bool = False
    approval: NeedsApproval = "none"
    approval_timeout_s: float = 300.0

    @property
    def declares_side_effects(self) -> bool:
        """Whether its author has said it; known only where the tool is loaded."""
        return "side_effects" in self.model_fields_set


# -- what one command sees -----------------------------------------------------------------------


class Aggregate(Record):
    """One thread's lock and tail, and one run with its steps and calls (``None``: no run is meant).

    ``steps`` is ordered by index, ``calls`` by (step, index). ``partial`` is what the model has
    said so far of a message that is still open.
    """

    thread: Thread
    run: Run | None = None
    spec: RunSpec | None = None
    steps: tuple[Step, ...] = ()
    calls: tuple[ToolCall, ...] = ()
    partial: str = ""

    def call(self, call_id: str) -> ToolCall | None:
        """The call with this id, if the run has it."""
        return next((c for c in self.calls if c.id == call_id), None)

    def open_calls(self) -> tuple[ToolCall, ...]:
        """Calls that have no output yet."""
        return tuple(c for c in self.calls if not c.is_settled)

    def client_calls(self) -> tuple[ToolCall, ...]:
        """Calls that wait for the client, in the model's order."""
        return tuple(c for c in self.calls if c.state is CallState.REQUIRED)

    def calls_to_approve(self) -> tuple[ToolCall, ...]:
        """Calls that wait to be approved or rejected, in the model's order."""
        return tuple(c for c in self.calls if c.state is CallState.AWAITING_APPROVAL)
