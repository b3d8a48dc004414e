"""What clients do to a thread: add messages, start a run."""

from orchestrator.commands import AddMessages, CreateRun, NewMessage
from orchestrator.decide.draft import Draft
from orchestrator.decisions import QueueTurn, SetTimer, TimerKey, TimerKind
from orchestrator.errors import MessageWhileBusy, ThreadBusy
from orchestrator.records import Message, Run
from orchestrator.states import RunStatus


def add_messages(draft: Draft, command: AddMessages) -> None:
    """Append messages, unless a run is active."""
    thread = draft.aggregate.thread
    if thread.active_run_id is not None:
        raise MessageWhileBusy(thread.id, thread.active_run_id)
    for message in command.messages:
        _append_message(draft, message)


def create_run(draft: Draft, command: CreateRun) -> None:
    """Take the thread's lock, append the run's own messages, and queue the first turn."""
    thread = draft.aggregate.thread
    if thread.active_run_id is not None:
        raise ThreadBusy(thread.id, thread.active_run_id)
    for message in command.additional_messages:
        _append_message(draft, message)
    run = Run(
        id=command.run_id,
        thread_id=thread.id,
        status=RunStatus.QUEUED,
        created_ms=draft.now_ms,
        deadline_ms=draft.now_ms + command.ttl_ms,
        updated_ms=draft.now_ms,
        metadata=command.metadata,
    )
    draft.add_run(run, command.spec)
    draft.ask(SetTimer(TimerKey(TimerKind.DEADLINE), run.deadline_ms), QueueTurn())


def _append_message(draft: Draft, message: NewMessage) -> None:
    draft.append(
        Message(
            seq=0,
            id=message.id,
            thread_id=draft.aggregate.thread.id,
            created_ms=draft.now_ms,
            role=message.role,
            content=message.content,
            attachments=message.attachments,
            metadata=message.metadata,
        )
    )
