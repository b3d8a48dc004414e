"""Runs, their steps, and what they cost."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

from pydantic import Field

from orchestrator.errors import LastErrorCode
from orchestrator.records.record import DEFAULT_TENANT, Json, Metadata, Record
from orchestrator.states import RunStatus, is_final


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


Dollars = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class Price(Record):
    """What a model costs, in US dollars per million tokens."""

    prompt: Dollars
    completion: Dollars
    cached: Dollars | None = None

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

    def micros(self, usage: Usage) -> int:
        """The same in whole millionths of a dollar."""
        return round(self.of(usage) * 1_000_000)


class RunSpec(Record):
    """What the run was asked to do. Written once, at creation.

    ``pinned_tools``: their outputs are kept, whatever is left out, as a tool's author may ask for.
    ``executor``: "auto" gives a call to the workers that serve its tool, else to the client;
    "client" gives all of them to the client. From ``max_turns`` on: the operator's limits of a run,
    the price of its model if known, and who it belongs to and is counted for: as its thread.
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
    pinned_tools: tuple[str, ...] = ()
    executor: Literal["auto", "client"] = "auto"
    max_turns: int = 50
    max_tool_calls: int | None = None
    max_repeated_calls: int | None = None
    max_total_tokens: int | None = None
    max_cost_usd: float | None = None
    price: Price | None = None
    tenant: str = DEFAULT_TENANT

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
    ``summary_usage``: what of ``usage`` went into summaries, and so belongs to no step.
    ``server_uses``: how often tools of the provider's own have run, by name.
    ``generation`` rises with each ``start_turn`` and fences engines; ``engine`` is who holds the
    turn now. ``incomplete_message`` says in words what was used up. ``stopped_by``: the guardrail
    whose refusal is the answer. ``rolls_back``: somebody asked that what it adds to the transcript
    goes when it ends.
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
    summary_usage: Usage | None = None
    failed_summaries: int = 0
    generation: int = 0
    engine: str | None = None
    turns: int = 0
    failed_attempts: int = 0
    token_ratio: float = 1.0
    server_uses: Mapping[str, int] = {}
    next_step: int = 0
    stopped_by: str | None = None
    rolls_back: bool = False

    @property
    def is_final(self) -> bool:
        """Whether the run has ended."""
        return is_final(self.status)

    @property
    def ended_ms(self) -> int | None:
        """When it ended. An expired run has no time of its own: it ended at its deadline."""
        expired_ms = self.deadline_ms if self.status is RunStatus.EXPIRED else None
        return self.completed_ms or self.failed_ms or self.cancelled_ms or expired_ms

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

    ``turn`` is the model turn that did it, ``message_seq`` the place of its message. A message that
    begins while the step of its turn's calls is open has a step ``is_aside``: streams do not show
    it, since clients know one open step at a time.
    """

    id: str
    index: int
    turn: int = 0
    type: Literal["message_creation", "tool_calls"]
    is_aside: bool = False
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
