"""The steps of a run and the messages they write: opened, finished, or cut off half-way."""

from typing import Literal

from orchestrator.decide.draft import Draft
from orchestrator.decisions import EventType, PutEntry
from orchestrator.records import (
    Json,
    LastError,
    Message,
    MessageStatus,
    Step,
    StepStatus,
    Usage,
)

StepType = Literal["message_creation", "tool_calls"]

LOST = LastError(
    code="server_error", message="The engine was lost in mid-turn; the turn is played again."
)


def open_step(draft: Draft, kind: StepType | None = None) -> Step | None:
    """The step that is under way, of this type if one is named; if there is one."""
    return next(
        (
            step
            for step in draft.aggregate.steps
            if step.status is StepStatus.IN_PROGRESS and kind in {None, step.type}
        ),
        None,
    )


def new_step(draft: Draft, step_id: str, kind: StepType, turn: int) -> Step:
    """A step with the next index, yet to be put into the draft."""
    index = draft.run.next_step
    draft.set_run(next_step=index + 1)
    return Step(
        id=step_id,
        index=index,
        turn=turn,
        type=kind,
        status=StepStatus.IN_PROGRESS,
        created_ms=draft.now_ms,
    )


def begin_message(draft: Draft, message_id: str, step_id: str, turn: int) -> Step:
    """Put an empty message at the end of the transcript; returns the step that writes it."""
    is_aside = open_step(draft, "tool_calls") is not None
    step = new_step(draft, step_id, "message_creation", turn)
    seq = draft.aggregate.thread.next_seq
    step = step.but(message_id=message_id, message_seq=seq, is_aside=is_aside)
    message = _message(draft, step)
    draft.append(message)
    draft.put_step(step, EventType.STEP_CREATED)
    draft.tell_message(EventType.MESSAGE_CREATED, message)
    return step


def end_message(
    draft: Draft,
    step: Step,
    content: tuple[Json, ...],
    *,
    cut_by: str | None = None,
    is_void: bool = False,
) -> None:
    """Store what the message has become: whole, or cut off for this reason."""
    ended: Json = {"status": MessageStatus.COMPLETED, "completed_ms": draft.now_ms}
    if cut_by is not None:
        ended = {
            "status": MessageStatus.INCOMPLETE,
            "incomplete_ms": draft.now_ms,
            "incomplete_reason": cut_by,
            "is_void": is_void,
        }
    message = _message(draft, step).but(content=content, **ended)
    draft.ask(PutEntry(message))
    draft.aggregate = draft.aggregate.but(partial="")
    draft.tell_message(EventType(f"message.{message.status}"), message)


def complete(draft: Draft, step: Step, usage: Usage | None) -> None:
    """The step has done what it was for."""
    done = step.but(status=StepStatus.COMPLETED, completed_ms=draft.now_ms, usage=usage)
    draft.put_step(done, EventType.STEP_COMPLETED)


def fail(draft: Draft, step: Step, error: LastError, usage: Usage | None) -> None:
    """The step could not do what it was for."""
    failed = step.but(
        status=StepStatus.FAILED, failed_ms=draft.now_ms, last_error=error, usage=usage
    )
    draft.put_step(failed, EventType.STEP_FAILED)


def cut_message(draft: Draft, reason: str, *, is_void: bool = False) -> None:
    """End a message that is still open with what the model has said so far."""
    step = open_step(draft, "message_creation")
    if step is not None and step.message_seq is not None:
        end_message(draft, step, partial_content(draft), cut_by=reason, is_void=is_void)


def abandon(draft: Draft) -> None:
    """Close what a lost turn has begun; the next attempt begins anew."""
    cut_message(draft, "run_failed", is_void=True)
    for step in draft.aggregate.steps:
        if step.status is StepStatus.IN_PROGRESS:
            fail(draft, step, LOST, step.usage)


def partial_content(draft: Draft) -> tuple[Json, ...]:
    """The parts of a message as far as they were streamed."""
    return text_content(draft.aggregate.partial) if draft.aggregate.partial else ()


def text_content(text: str) -> tuple[Json, ...]:
    """One text part."""
    return ({"type": "text", "text": {"value": text, "annotations": []}},)


def _message(draft: Draft, step: Step) -> Message:
    return Message(
        seq=step.message_seq,
        id=step.message_id,
        thread_id=draft.aggregate.thread.id,
        created_ms=step.created_ms,
        role="assistant",
        content=(),
        assistant_id=draft.spec.assistant_id,
        run_id=draft.run.id,
        turn=step.turn,
        status=MessageStatus.IN_PROGRESS,
    )
