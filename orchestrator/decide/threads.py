"""What clients do to a thread: add messages, start a run, delete it."""

from typing import Final

from orchestrator.commands import AddMessages, Cancel, CreateRun, IfBusy, ImportMessage, NewMessage
from orchestrator.decide import endings, waiting
from orchestrator.decide.draft import Draft
from orchestrator.decisions import QueueTurn, SetTimer, TimerKey, TimerKind
from orchestrator.errors import MessageWhileBusy, ThreadBusy
from orchestrator.records import Message, Run, Waiting
from orchestrator.states import RunStatus

_DEADLINE: Final = TimerKey(TimerKind.DEADLINE)


def add_messages(draft: Draft, command: AddMessages) -> None:
    """Append messages; while a run is active, do with them what their client wants."""
    thread = draft.aggregate.thread
    messages = tuple(_message(draft, message) for message in command.messages)
    if thread.active_run_id is None:
        for message in messages:
            draft.append(message)
    elif command.if_busy is IfBusy.REJECT:
        raise MessageWhileBusy(thread.id, thread.active_run_id)
    else:
        waiting.join(draft, Waiting(messages=messages))
        _make_way(draft, command.if_busy, command.watchdog_ms)


def import_message(draft: Draft, command: ImportMessage) -> None:
    """Append a message as it is, unless a run is active."""
    thread = draft.aggregate.thread
    if thread.active_run_id is not None:
        raise MessageWhileBusy(thread.id, thread.active_run_id)
    draft.append(command.message)


def create_run(draft: Draft, command: CreateRun) -> None:
    """Take the thread's lock, append the run's own messages, and queue the first turn; while
    another run is active, do what the client wants.
    """
    thread = draft.aggregate.thread
    run, spec = _new_run(draft, command), command.spec.but(tenant=thread.tenant)
    messages = tuple(_message(draft, message) for message in command.additional_messages)
    if thread.active_run_id is None:
        for entry in command.past:
            draft.restore(entry)
        draft.set_thread(active_from_seq=draft.aggregate.thread.next_seq)
        for message in messages:
            draft.append(message)
        draft.add_run(run, spec)
        draft.set_timer(_DEADLINE, run.deadline_ms)
        draft.ask(QueueTurn())
    elif command.if_busy is IfBusy.REJECT:
        raise ThreadBusy(thread.id, thread.active_run_id)
    else:
        waiting.join(draft, Waiting(messages=messages, run_id=run.id))
        draft.add_waiting_run(run, spec)
        draft.ask(SetTimer(_DEADLINE, run.deadline_ms, run.id))
        _make_way(draft, command.if_busy, command.watchdog_ms)


def delete_thread(draft: Draft) -> None:
    """End the active run; with the last one the thread is gone, and what is left of it is removed
    by whoever finds the timer.
    """
    if draft.aggregate.thread.active_run_id is not None:
        endings.cancel_now(draft)
    if draft.aggregate.thread.active_run_id is None:
        draft.set_thread(is_deleted=True)
        draft.ask(SetTimer(TimerKey(TimerKind.DELETION), draft.now_ms, run_id=""))


def _make_way(draft: Draft, if_busy: IfBusy, watchdog_ms: int) -> None:
    """What becomes of the active run; a second interruption finds it cancelling."""
    if if_busy is IfBusy.ENQUEUE:
        return
    if if_busy is IfBusy.ROLLBACK:
        draft.set_run(rolls_back=True)
    if draft.run.status is not RunStatus.CANCELLING:
        endings.cancel(draft, Cancel(watchdog_ms))


def _new_run(draft: Draft, command: CreateRun) -> Run:
    return Run(
        id=command.run_id,
        thread_id=draft.aggregate.thread.id,
        status=RunStatus.QUEUED,
        created_ms=draft.now_ms,
        deadline_ms=draft.now_ms + command.ttl_ms,
        updated_ms=draft.now_ms,
        metadata=command.metadata,
    )


def _message(draft: Draft, message: NewMessage) -> Message:
    return Message(
        seq=0,
        id=message.id,
        thread_id=draft.aggregate.thread.id,
        created_ms=draft.now_ms,
        role=message.role,
        content=message.content,
        attachments=message.attachments,
        metadata=message.metadata,
    )
