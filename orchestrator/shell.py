"""Load, decide, commit: the one way in which anything about a run changes.

A due deadline is applied before the command, so that nobody ever acts on, or sees, a run past its
time. A stale revision means: load again and decide again.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

from orchestrator.commands import Command, DeleteThread, Expire, ImportMessage
from orchestrator.decide import decide
from orchestrator.decisions import Decision
from orchestrator.errors import NotFound, NotNow, StaleRevision
from orchestrator.receipts import Attempt
from orchestrator.records import Aggregate, Message, Thread
from orchestrator.repetition import ATTEMPTS, AlreadyDone, Tries, made_by, tries_of_new_thread
from orchestrator.store import Loaded, RunRef, RunView, Store


async def change_run(
    store: Store, ref: RunRef, command: Command, attempt: Attempt | None = None
) -> Aggregate:
    """Apply a command to a run; returns what was committed. Two round trips when nobody races.

    An ``attempt`` makes it, here and below, a request that counts once: raises ``AlreadyDone``.
    """
    tries = Tries(store, attempt, ref.run_id, ref.thread_id) if attempt else None
    return await _change(store, lambda: store.load(ref.thread_id, ref.run_id), command, tries)


async def change_thread(
    store: Store, thread_id: str, command: Command, attempt: Attempt | None = None
) -> Aggregate:
    """Apply a command that concerns the thread and whatever run is active on it."""
    tries = Tries(store, attempt, made_by(command), thread_id) if attempt else None
    return await _change(store, lambda: store.load_active(thread_id), command, tries)


async def create_thread(
    store: Store, thread: Thread, command: Command, attempt: Attempt | None = None
) -> Aggregate:
    """Write a new thread together with what the command adds to it."""
    tries = None
    if attempt:
        thread_id, tries = await tries_of_new_thread(store, attempt, thread.id, command)
        thread = thread.but(id=thread_id)
    return await _change(store, lambda: store.fresh(thread), command, tries)


async def import_message(store: Store, message: Message) -> None:
    """Append a message as it is. Raises ``AlreadyDone`` if the thread has one with its id."""

    async def load() -> Loaded:
        loaded = await store.load_active(message.thread_id)
        with suppress(NotFound):
            there = await store.get_message(message.thread_id, message.id)
            raise AlreadyDone(there.id, there.thread_id)
        return loaded

    await _change(store, load, ImportMessage(message))


async def delete_thread(store: Store, thread_id: str, attempt: Attempt | None = None) -> None:
    """End the runs of a thread, one commit for each, and with the last of them the thread. Whoever
    finds its timer removes what is left. Raises ``NotFound``.
    """

    def load() -> Awaitable[Loaded]:
        return store.load_active(thread_id)

    tries = Tries(store, attempt, "", thread_id) if attempt else None
    left = (await (tries.look_and(load) if tries else load())).aggregate
    with suppress(NotFound):  # it is gone: by us, or by somebody else as well
        while not left.thread.is_deleted:
            left = await _change(store, load, DeleteThread(), tries)


async def view_run(store: Store, ref: RunRef) -> RunView:
    """A run for readers, never past its deadline. One round trip, unless the deadline is due."""
    view = await store.view(ref)
    if is_overdue(view):
        await expire(store, ref)
        view = await store.view(ref)
    return view


def is_overdue(view: RunView) -> bool:
    """Whether the run should have expired by now."""
    return not view.run.is_final and view.now_ms >= view.run.deadline_ms


async def expire(store: Store, ref: RunRef) -> Aggregate:
    """The run, after its deadline was applied if it is due and nobody else has."""
    return await _change(store, lambda: store.load(ref.thread_id, ref.run_id), None)


async def _change(
    store: Store,
    load: Callable[[], Awaitable[Loaded]],
    command: Command | None,
    tries: Tries | None = None,
) -> Aggregate:
    for _ in range(ATTEMPTS):
        loaded = await (tries.look_and(load) if tries else load())
        step = Expire() if _is_due(loaded) else command
        if step is None:
            return loaded.aggregate
        try:
            decision = decide(loaded.aggregate, step, loaded.now_ms)
            if tries and step is command and _is_whole(command, decision):
                decision = replace(decision, remember=tries.remember(loaded.now_ms))
            if decision.aggregate is not loaded.aggregate or loaded.thread_revision == 0:
                await store.commit(loaded, decision)
        except StaleRevision:
            if loaded.thread_revision == 0 and tries is None:
                raise  # there is a thread with this id
            continue
        except NotNow:
            if tries:  # it may be another try of this request that came first
                await tries.look()
            raise
        if command is None or step is command:
            return decision.aggregate
    raise StaleRevision(loaded.aggregate.thread.id)


def _is_whole(command: Command, decision: Decision) -> bool:
    """Whether the request is carried out by this: a thread is deleted in several commits."""
    return not isinstance(command, DeleteThread) or decision.aggregate.thread.is_deleted


def _is_due(loaded: Loaded) -> bool:
    run = loaded.aggregate.run
    return run is not None and not run.is_final and loaded.now_ms >= run.deadline_ms
