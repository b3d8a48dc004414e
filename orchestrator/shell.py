"""Load, decide, commit: the one way in which anything about a run changes.

A due deadline is applied before the command, so that nobody ever acts on, or sees, a run past its
time. A stale revision means: load again and decide again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from orchestrator.commands import Command, Expire
from orchestrator.decide import decide
from orchestrator.errors import StaleRevision
from orchestrator.records import Aggregate, Thread
from orchestrator.store import Loaded, RunRef, RunView, Store

ATTEMPTS: Final = 100
"""Each lost race means that somebody else made progress, so this many in a row is a fault."""


async def change_run(store: Store, ref: RunRef, command: Command) -> Aggregate:
    """Apply a command to a run; returns what was committed. Two round trips when nobody races."""
    return await _change(store, lambda: store.load(ref.thread_id, ref.run_id), command)


async def change_thread(store: Store, thread_id: str, command: Command) -> Aggregate:
    """Apply a command that concerns the thread and whatever run is active on it."""
    return await _change(store, lambda: store.load_active(thread_id), command)


async def create_thread(store: Store, thread: Thread, command: Command) -> Aggregate:
    """Write a new thread together with what the command adds to it."""
    return await _change(store, lambda: store.fresh(thread), command)


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


async def expire(store: Store, ref: RunRef) -> None:
    """Apply the deadline, if it is due and nobody else has."""
    await _change(store, lambda: store.load(ref.thread_id, ref.run_id), None)


async def _change(
    store: Store, load: Callable[[], Awaitable[Loaded]], command: Command | None
) -> Aggregate:
    for _ in range(ATTEMPTS):
        loaded = await load()
        step = Expire() if _is_due(loaded) else command
        if step is None:
            return loaded.aggregate
        decision = decide(loaded.aggregate, step, loaded.now_ms)
        try:
            if decision.aggregate is not loaded.aggregate or loaded.thread_revision == 0:
                await store.commit(loaded, decision)
        except StaleRevision:
            continue
        if step is command:
            return decision.aggregate
    raise StaleRevision(loaded.aggregate.thread.id)


def _is_due(loaded: Loaded) -> bool:
    run = loaded.aggregate.run
    return run is not None and not run.is_final and loaded.now_ms >= run.deadline_ms
