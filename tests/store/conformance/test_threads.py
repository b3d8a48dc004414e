"""Threads and messages are changed under a revision."""

import asyncio

import pytest

from orchestrator.decisions import PutEntry
from orchestrator.errors import NotFound, StaleRevision
from orchestrator.records import Guarded
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import PageQuery
from tests.store.samples import change, changed, new_message, put_run, put_thread


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
    await change(store, ref, *map(PutEntry, messages))
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


async def test_a_message_takes_along_what_guardrails_made_of_it(store: ValkeyStore) -> None:
    ref = await put_run(store)
    messages = [new_message(ref.thread_id, seq) for seq in range(2)]
    made = [Guarded(seq=2 + x, run_id=ref.run_id, of_seq=x, text="…") for x in range(2)]
    await change(store, ref, *map(PutEntry, messages), *map(PutEntry, made))
    await store.modify_thread(ref.thread_id, {"guarded_seq": 4})
    await store.delete_message(ref.thread_id, messages[0].id)
    assert await store.read_entries(ref.thread_id) == (messages[1], made[1])


async def test_a_copied_message_is_not_listed_with_the_run_that_wrote_it(
    store: ValkeyStore,
) -> None:
    ref = await put_run(store)
    said = new_message(ref.thread_id, 0, ref.run_id)
    await change(store, ref, PutEntry(said))
    copy = new_message(ref.thread_id, 1, ref.run_id)
    other = await put_run(store, ref.thread_id, effects=[PutEntry(copy)])
    listed = {
        run_id: (await store.list_messages(ref.thread_id, PageQuery(), run_id)).items
        for run_id in (None, ref.run_id, other.run_id)
    }
    assert listed == {None: (copy, said), ref.run_id: (said,), other.run_id: ()}


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
    with pytest.raises(NotFound, match="No message has"):
        await store.get_message(thread.id, "msg_x")
    with pytest.raises(NotFound, match="No message has"):
        await store.modify_message(thread.id, "msg_x", {"metadata": {}})
    with pytest.raises(NotFound, match="No message has"):
        await store.delete_message(thread.id, "msg_x")
    with pytest.raises(NotFound, match="No thread has"):
        await store.delete_message("thread_x", "msg_x")
