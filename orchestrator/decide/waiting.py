"""What waits for a thread's active run to end: runs and messages, served in the order they came."""

from typing import Final

from orchestrator.decide.draft import Draft
from orchestrator.decisions import DropEntries, QueueTurn
from orchestrator.errors import TooManyWaiting
from orchestrator.records import Waiting
from orchestrator.states import RunStatus

MAX_WAITING: Final = 50
"""Per thread. The queue is part of the thread's document, which every command reads."""

MAX_WAITING_BYTES: Final = 1024 * 1024
"""Of the messages in it, as they are stored; reading and writing them again takes 2 ms."""


def join(draft: Draft, newcomer: Waiting) -> None:
    """Put runs or messages at the end of the queue."""
    thread = draft.aggregate.thread
    queue = (*thread.waiting, newcomer)
    if len(queue) > MAX_WAITING or _size_bytes(queue) > MAX_WAITING_BYTES:
        raise TooManyWaiting(thread.id, draft.run.id)
    draft.set_thread(waiting=queue)


def release(draft: Draft, status: RunStatus) -> None:
    """The run ends with this status: give the thread to whoever waits, or leave the queue."""
    thread, run = draft.aggregate.thread, draft.run
    if thread.active_run_id != run.id:
        _leave(draft)
        return
    if run.rolls_back and status is not RunStatus.COMPLETED:
        draft.ask(DropEntries(thread.active_from_seq, thread.next_seq))
        draft.set_thread(guarded_seq=0)  # what guardrails made of earlier entries goes, too
    draft.set_thread(active_run_id=None)
    _admit(draft)


def _size_bytes(queue: tuple[Waiting, ...]) -> int:
    messages = (message for one in queue for message in one.messages)
    return sum(len(message.model_dump_json().encode()) for message in messages)


def _leave(draft: Draft) -> None:
    """The run waits no more; what its client said before it still does."""
    thread, run_id = draft.aggregate.thread, draft.run.id
    left = (one.but(run_id=None) if one.run_id == run_id else one for one in thread.waiting)
    draft.set_thread(waiting=tuple(one for one in left if one.run_id or one.messages))


def _admit(draft: Draft) -> None:
    """Append what waits, up to the first run; the thread is that run's from now on."""
    queue = draft.aggregate.thread.waiting
    for place, one in enumerate(queue, 1):
        from_seq = draft.aggregate.thread.next_seq
        for message in one.messages:
            draft.append(message)
        draft.set_thread(waiting=queue[place:])
        if one.run_id is not None:
            draft.set_thread(active_run_id=one.run_id, active_from_seq=from_seq)
            draft.ask(QueueTurn(one.run_id))
            return
