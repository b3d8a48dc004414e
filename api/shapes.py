"""From stored records to the objects of the wire. Every key is always there; times are seconds."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from typing_extensions import TypedDict

from orchestrator.projection import public_status, required_calls
from orchestrator.records import (
    Assistant,
    CallState,
    Json,
    Message,
    Metadata,
    Price,
    Run,
    RunSpec,
    Step,
    StepStatus,
    Thread,
    ToolCall,
    Usage,
)


class AssistantObject(TypedDict):
    """An assistant."""

    id: str
    object: Literal["assistant"]
    created_at: int
    name: str | None
    description: str | None
    model: str
    instructions: str | None
    tools: list[Json]
    tool_resources: Json
    metadata: Metadata
    temperature: float | None
    top_p: float | None
    response_format: Any
    reasoning_effort: str | None


class ThreadObject(TypedDict):
    """A thread."""

    id: str
    object: Literal["thread"]
    created_at: int
    metadata: Metadata
    tool_resources: Json


class MessageObject(TypedDict):
    """A message; ``run_id`` and ``assistant_id`` are null on those that clients added."""

    id: str
    object: Literal["thread.message"]
    created_at: int
    thread_id: str
    status: str
    incomplete_details: Json | None
    completed_at: int | None
    incomplete_at: int | None
    role: str
    content: list[Json]
    assistant_id: str | None
    run_id: str | None
    attachments: list[Json]
    metadata: Metadata


class UsageDetails(TypedDict):
    """Of the prompt, what the provider had in its cache."""

    cached_tokens: int


class UsageObject(TypedDict):
    """Tokens; ours: what they cost, ``null`` where the price of the model is unknown."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_token_details: UsageDetails
    cost_usd: float | None


class RunObject(TypedDict):
    """A run. ``status`` is the public one."""

    id: str
    object: Literal["thread.run"]
    created_at: int
    thread_id: str
    assistant_id: str
    status: str
    required_action: Json | None
    last_error: Json | None
    expires_at: int | None
    started_at: int | None
    cancelled_at: int | None
    failed_at: int | None
    completed_at: int | None
    incomplete_details: Json | None
    model: str
    instructions: str
    tools: list[Json]
    tool_resources: Json
    metadata: Metadata
    usage: UsageObject | None
    temperature: float | None
    top_p: float | None
    max_prompt_tokens: int | None
    max_completion_tokens: int | None
    truncation_strategy: Json
    tool_choice: Any
    parallel_tool_calls: bool
    response_format: Any
    reasoning_effort: str | None


class StepObject(TypedDict):
    """A run step."""

    id: str
    object: Literal["thread.run.step"]
    created_at: int
    assistant_id: str
    thread_id: str
    run_id: str
    type: str
    status: str
    step_details: Json
    last_error: Json | None
    expired_at: int | None
    cancelled_at: int | None
    failed_at: int | None
    completed_at: int | None
    metadata: Metadata | None
    usage: UsageObject | None


class DeletedObject(TypedDict):
    """What a deletion answers."""

    id: str
    object: str
    deleted: Literal[True]


def assistant_object(assistant: Assistant) -> AssistantObject:
    """An assistant as clients see it."""
    return AssistantObject(
        id=assistant.id,
        object="assistant",
        created_at=assistant.created_ms // 1000,
        name=assistant.name,
        description=assistant.description,
        model=assistant.model,
        instructions=assistant.instructions,
        tools=list(assistant.tools),
        tool_resources=assistant.tool_resources or {},
        metadata=assistant.metadata,
        temperature=assistant.temperature,
        top_p=assistant.top_p,
        response_format=assistant.response_format,
        reasoning_effort=assistant.reasoning_effort,
    )


def thread_object(thread: Thread) -> ThreadObject:
    """A thread as clients see it."""
    return ThreadObject(
        id=thread.id,
        object="thread",
        created_at=thread.created_ms // 1000,
        metadata=thread.metadata,
        tool_resources=thread.tool_resources or {},
    )


def message_object(message: Message) -> MessageObject:
    """A message as clients see it."""
    return MessageObject(
        id=message.id,
        object="thread.message",
        created_at=message.created_ms // 1000,
        thread_id=message.thread_id,
        status=message.status,
        incomplete_details=_reason(message.incomplete_reason),
        completed_at=_seconds(message.completed_ms),
        incomplete_at=_seconds(message.incomplete_ms),
        role=message.role,
        content=list(message.content),
        assistant_id=message.assistant_id,
        run_id=message.run_id,
        attachments=list(message.attachments),
        metadata=message.metadata,
    )


def run_object(run: Run, spec: RunSpec, calls: Iterable[ToolCall]) -> RunObject:
    """A run as clients see it: the public status, and only the calls that wait for them."""
    ledger = tuple(calls)
    return RunObject(
        id=run.id,
        object="thread.run",
        created_at=run.created_ms // 1000,
        thread_id=run.thread_id,
        assistant_id=spec.assistant_id,
        status=public_status(run, ledger),
        required_action=_required_action(required_calls(run, ledger)),
        last_error=run.last_error.model_dump() if run.last_error else None,
        expires_at=None if run.is_final else run.deadline_ms // 1000,
        started_at=_seconds(run.started_ms),
        cancelled_at=_seconds(run.cancelled_ms),
        failed_at=_seconds(run.failed_ms),
        completed_at=_seconds(run.completed_ms),
        incomplete_details=_incomplete(run),
        model=spec.model,
        instructions=spec.instructions,
        tools=list(spec.tools),
        tool_resources=spec.tool_resources or {},
        metadata=run.metadata,
        usage=_usage(run.usage, spec.price) if run.is_final else None,
        temperature=spec.temperature,
        top_p=spec.top_p,
        max_prompt_tokens=spec.max_prompt_tokens,
        max_completion_tokens=spec.max_completion_tokens,
        truncation_strategy={"last_messages": None, **spec.truncation_strategy},
        tool_choice=spec.tool_choice,
        parallel_tool_calls=spec.parallel_tool_calls,
        response_format=spec.response_format,
        reasoning_effort=spec.reasoning_effort,
    )


def step_object(
    step: Step, run: Run, spec: RunSpec, calls: Iterable[ToolCall], outputs: Mapping[str, str]
) -> StepObject:
    """A step as clients see it; ``outputs`` are texts by call id."""
    is_open = step.status is StepStatus.IN_PROGRESS
    return StepObject(
        id=step.id,
        object="thread.run.step",
        created_at=step.created_ms // 1000,
        assistant_id=spec.assistant_id,
        thread_id=run.thread_id,
        run_id=run.id,
        type=step.type,
        status=step.status,
        step_details=_step_details(step, calls, outputs),
        last_error=step.last_error.model_dump() if step.last_error else None,
        expired_at=_seconds(step.expired_ms),
        cancelled_at=_seconds(step.cancelled_ms),
        failed_at=_seconds(step.failed_ms),
        completed_at=_seconds(step.completed_ms),
        metadata=None,
        usage=None if is_open else _usage(step.usage, spec.price),
    )


def answered_seqs(calls: Iterable[ToolCall]) -> list[int]:
    """The transcript places of the outputs that a step shows. What was written in the place of an
    output because the run ended is for the model only.
    """
    return [
        call.output_seq
        for call in calls
        if call.output_seq is not None and call.state is not CallState.CANCELLED
    ]


def deleted_object(object_id: str, kind: str) -> DeletedObject:
    """The answer to a deletion; ``kind`` as in ``thread.message``."""
    return DeletedObject(id=object_id, object=f"{kind}.deleted", deleted=True)


def _step_details(step: Step, calls: Iterable[ToolCall], outputs: Mapping[str, str]) -> Json:
    if step.type == "message_creation":
        return {"type": step.type, "message_creation": {"message_id": step.message_id}}
    shown = [
        _function(call, output=outputs.get(call.id)) for call in calls if call.step_id == step.id
    ]
    return {"type": step.type, "tool_calls": shown}


def _required_action(waiting: tuple[ToolCall, ...]) -> Json | None:
    if not waiting:
        return None
    if waiting[0].state is CallState.AWAITING_APPROVAL:
        asked = [_to_approve(call) for call in waiting]
        return {"type": "submit_tool_approval", "submit_tool_approval": {"tool_calls": asked}}
    calls = [_function(call) for call in waiting]
    return {"type": "submit_tool_outputs", "submit_tool_outputs": {"tool_calls": calls}}


def _function(call: ToolCall, **more: str | None) -> Json:
    function = {"name": call.name, "arguments": call.arguments, **more}
    return {"id": call.id, "type": "function", "function": function}


def _to_approve(call: ToolCall) -> Json:
    """In the form that the preview SDK of Azure knows; the queue stands for its server."""
    return {
        "id": call.id,
        "type": "mcp",
        "name": call.name,
        "arguments": call.arguments,
        "server_label": call.queue,
    }


def _usage(usage: Usage | None, price: Price | None) -> UsageObject | None:
    if usage is None:
        return None
    return UsageObject(
        prompt_tokens=usage.prompt_tokens,
        completion_tokens=usage.completion_tokens,
        total_tokens=usage.total_tokens,
        prompt_token_details=UsageDetails(cached_tokens=usage.cached_tokens),
        cost_usd=price.of(usage) if price else None,
    )


def _seconds(time_ms: int | None) -> int | None:
    return None if time_ms is None else time_ms // 1000


def _incomplete(run: Run) -> Json | None:
    """The reason in the API's word, and ours in a sentence beside it."""
    details = _reason(run.incomplete_reason)
    return details | {"message": run.incomplete_message} if details else None


def _reason(reason: str | None) -> Json | None:
    return None if reason is None else {"reason": reason}
