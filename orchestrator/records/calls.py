"""The ledger of tool calls, and the tools as their workers publish them."""

from enum import StrEnum
from typing import Literal

from orchestrator.records.record import Json, Record


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
    approved and never starts before; ``asked_arguments``: the model's, if a guardrail or an
    operator has put others in their place.
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
