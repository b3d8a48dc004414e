"""Threads are deleted without a rest, and nothing that comes late brings one back."""

from dataclasses import replace

import pytest

from orchestrator.decisions import (
    Decision,
    PutEntry,
    QueueTurn,
    SetTimer,
    StopCall,
    TimerKey,
    TimerKind,
)
from orchestrator.errors import NotFound, StaleRevision
from orchestrator.records import Aggregate
from orchestrator.storage.threads import RUNS_AT_ONCE
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import PageQuery, RunRef
from tests.leaks import left_keys
from tests.store.samples import (
    change,
    changed,
    delete_thread,
    new_message,
    put_run,
    put_thread,
)

DEADLINE = TimerKey(TimerKind.DEADLINE)
DELETION = TimerKey(TimerKind.DELETION)
LEASE = TimerKey(TimerKind.TURN_LEASE, 1)


async def bury(store: ValkeyStore, thread_id: str) -> None:
    """A committed deletion, as far as clients can see it."""
    loaded = await store.load(thread_id)
    thread = loaded.aggregate.thread.but(is_deleted=True)
    timer = SetTimer(DELETION, 1, run_id="")
    await store.commit(loaded, Decision(Aggregate(thread=thread), effects=(timer,)))


async def test_a_deleted_thread_leaves_no_key_and_no_other_thread_is_touched(
    store: ValkeyStore,
) -> None:
    keys_before = await left_keys(store._client, "rs")
    thread = await put_thread(store, messages=2)
    for _ in range(2):
        ref = await put_run(store, thread.id)
        await change(store, ref, PutEntry(new_message(thread.id, 2, ref.run_id)))
    neighbours = [await put_run(store, effects=[SetTimer(DEADLINE, 1)]) for _ in range(20)]

    await delete_thread(store, thread.id)

    for neighbour in neighbours:
        assert (await store.view(neighbour)).run.id == neighbour.run_id
        assert len(await store.read_events(neighbour)) == 1
    due = await store.take_due(1000, 60_000)
    assert {timer.ref for timer in due} == set(neighbours)
    for timer in due:
        await store.drop_timer(timer)
        await delete_thread(store, timer.ref.thread_id)
    assert await left_keys(store._client, "rs") == keys_before == []


async def test_a_deleted_thread_is_unreadable_at_once_and_its_timer_says_what_is_left(
    store: ValkeyStore,
) -> None:
    thread = await put_thread(store, messages=1)
    ref = await put_run(store, thread.id)
    (message,) = (await store.list_messages(thread.id, PageQuery())).items
    await bury(store, thread.id)

    for read in (
        store.load(thread.id),
        store.load(thread.id, ref.run_id),
        store.view(ref),
        store.get_message(thread.id, message.id),
        store.modify_thread(thread.id, {"metadata": {}}),
        store.modify_message(thread.id, message.id, {"metadata": {}}),
        store.delete_message(thread.id, message.id),
    ):
        with pytest.raises(NotFound):
            await read
    assert (await store.list_threads(PageQuery())).items == ()
    assert await store.read_entries(thread.id) == ()

    (due,) = await store.take_due(1000, 60_000)
    assert (due.ref, due.key) == (RunRef(thread.id, ""), DELETION)
    for _ in range(2):
        await store.clear_thread(thread.id)
    await store.drop_timer(due)
    assert await left_keys(store._client, "rs") == []


async def test_a_run_that_ends_with_its_thread_writes_nothing_into_it(store: ValkeyStore) -> None:
    ref = await put_run(store)
    loaded, decision = changed(
        await store.load(ref.thread_id, ref.run_id), PutEntry(new_message(ref.thread_id, 0))
    )
    deleted = decision.aggregate.thread.but(is_deleted=True)
    await store.commit(loaded, replace(decision, aggregate=decision.aggregate.but(thread=deleted)))
    await store.clear_thread(ref.thread_id)
    assert await left_keys(store._client, "rs") == []


async def test_what_comes_late_for_a_deleted_thread_creates_nothing(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 1)])
    late = changed(
        await store.load(ref.thread_id, ref.run_id),
        SetTimer(DEADLINE, 1),
        QueueTurn(),
        PutEntry(new_message(ref.thread_id, 0)),
        StopCall("call_1", "tools", None),
    )
    (lease,) = await store.take_due(1000, 60_000)
    await bury(store, ref.thread_id)
    with pytest.raises(StaleRevision):
        await store.commit(*late)
    await store.drop_timer(lease)
    await store.clear_thread(ref.thread_id)
    with pytest.raises(StaleRevision):
        await store.commit(*late)
    assert not await store.renew(ref, LEASE, 1000)
    (due,) = await store.take_due(1000, 60_000)
    await store.drop_timer(due)
    assert await left_keys(store._client, "rs") == []


async def test_a_thread_with_many_runs_is_cleared_in_steps(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    for _ in range(RUNS_AT_ONCE + 1):
        await put_run(store, thread.id)
    await delete_thread(store, thread.id)
    assert await left_keys(store._client, "rs") == []
