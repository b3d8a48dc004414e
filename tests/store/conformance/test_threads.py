"""Threads and messages are changed under a revision, and deleted without a rest."""

import asyncio

import pytest

from orchestrator.decisions import AppendEntry, SetTimer, TimerKey, TimerKind
from orchestrator.errors import NotFound, StaleRevision, StoreUnavailable
from orchestrator.storage.threads import RUNS_AT_ONCE
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import PageQuery
from tests.leaks import left_keys
from tests.store.faults import Faulty
from tests.store.samples import change, changed, new_message, put_run, put_thread

DEADLINE = TimerKey(TimerKind.DEADLINE)
CALL_LEASE = TimerKey(TimerKind.CALL_LEASE, 2, "call_1")


async def test_a_thread_is_modified(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    changes = {"metadata": {"a": "b"}, "tool_resources": {"x": {}}}
    modified = await store.modify_thread(thread.id, changes)
    assert modified == thread.but(**changes)
    assert (await store.load(thread.id)).aggregate.thread == modified


async def test_changes_that_meet_all_take_effect(store: ValkeyStore) -> None:
    thread = await put_thread(store, messages=3)
    messages = (await store.list_messages(thread.id, PageQuery())).items
    await asyncio.gather(
        *(store.modify_message(thread.id, m.id, {"metadata": {"n": m.id}}) for m in messages),
        store.modify_thread(thread.id, {"metadata": {"a": "b"}}),
    )
    assert (await store.load(thread.id)).aggregate.thread.metadata == {"a": "b"}
    changed_messages = (await store.list_messages(thread.id, PageQuery())).items
    assert [m.metadata for m in changed_messages] == [{"n": m.id} for m in messages]


async def test_a_message_is_read_modified_and_deleted(store: ValkeyStore) -> None:
    ref = await put_run(store)
    messages = [new_message(ref.thread_id, seq, ref.run_id) for seq in range(3)]
    await change(store, ref, *map(AppendEntry, messages))
    message = messages[1]
    assert await store.get_message(ref.thread_id, message.id) == message

    modified = await store.modify_message(ref.thread_id, message.id, {"metadata": {"a": "b"}})
    assert modified == message.but(metadata={"a": "b"})
    assert await store.get_message(ref.thread_id, message.id) == modified

    await store.delete_message(ref.thread_id, message.id)
    assert await store.read_entries(ref.thread_id) == (messages[0], messages[2])
    for run_id in (None, ref.run_id):
        page = await store.list_messages(ref.thread_id, PageQuery(), run_id)
        assert page.items == (messages[2], messages[0])
    with pytest.raises(NotFound):
        await store.get_message(ref.thread_id, message.id)


async def test_a_commit_that_did_not_see_the_deletion_of_a_message_is_stale(
    store: ValkeyStore,
) -> None:
    thread = await put_thread(store, messages=1)
    ref = await put_run(store, thread.id)
    decided = changed(await store.load(ref.thread_id, ref.run_id))
    (message,) = (await store.list_messages(thread.id, PageQuery())).items
    await store.delete_message(thread.id, message.id)
    with pytest.raises(StaleRevision):
        await store.commit(*decided)


async def test_what_is_missing_cannot_be_changed(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    with pytest.raises(NotFound, match="No thread has"):
        await store.modify_thread("thread_x", {"metadata": {}})
    with pytest.raises(NotFound, match="No thread has"):
        await store.delete_thread("thread_x")
    with pytest.raises(NotFound, match="No message has"):
        await store.get_message(thread.id, "msg_x")
    with pytest.raises(NotFound, match="No message has"):
        await store.modify_message(thread.id, "msg_x", {"metadata": {}})
    with pytest.raises(NotFound, match="No message has"):
        await store.delete_message(thread.id, "msg_x")
    with pytest.raises(NotFound, match="No thread has"):
        await store.delete_message("thread_x", "msg_x")


async def test_a_deleted_thread_leaves_no_key_and_no_other_thread_is_touched(
    store: ValkeyStore,
) -> None:
    keys_before = await left_keys(store._client, "rs")
    thread = await put_thread(store, messages=2)
    for _ in range(2):
        timers = (SetTimer(DEADLINE, 1), SetTimer(CALL_LEASE, 2))
        ref = await put_run(store, thread.id, timers)
        await change(store, ref, AppendEntry(new_message(thread.id, 2, ref.run_id)))
    neighbours = [await put_run(store, effects=[SetTimer(DEADLINE, 1)]) for _ in range(20)]

    await store.delete_thread(thread.id)

    for neighbour in neighbours:
        assert (await store.view(neighbour)).run.id == neighbour.run_id
        assert len(await store.read_events(neighbour)) == 1
    assert {due.ref for due in await store.take_due(1000, 1)} == set(neighbours)
    for neighbour in neighbours:
        await store.delete_thread(neighbour.thread_id)
    assert await left_keys(store._client, "rs") == keys_before == []


async def test_a_thread_with_many_runs_is_deleted_in_steps(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    for _ in range(RUNS_AT_ONCE + 1):
        await put_run(store, thread.id)
    home = store.keys.home(thread.id)

    assert await store._delete_some(home, thread.id)
    assert len((await store.list_runs(thread.id, PageQuery(limit=100))).items) == 1

    await store.delete_thread(thread.id)
    assert await left_keys(store._client, "rs") == []


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
async def test_a_deletion_that_fails_anywhere_can_be_repeated(
    store: ValkeyStore, after: bool
) -> None:
    counting = Faulty(store, fail_at=0, after=False)
    fail_at = 0
    while True:
        fail_at += 1
        thread = await put_thread(store, messages=1)
        ref = await put_run(store, thread.id, [SetTimer(DEADLINE, 1)])
        store.pipeliner = counting._inner
        faulty = Faulty(store, fail_at, after=after)
        try:
            await store.delete_thread(thread.id)
        except StoreUnavailable:
            store.pipeliner = counting._inner
            await store.delete_thread(thread.id)
        store.pipeliner = counting._inner
        assert await left_keys(store._client, "rs") == [], (fail_at, ref)
        if faulty.calls < fail_at:
            break
    assert fail_at > 4
