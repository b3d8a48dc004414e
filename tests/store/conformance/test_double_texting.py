"""Runs that wait, and entries that are taken back."""

from orchestrator.decisions import (
    AddRun,
    Decision,
    DropEntries,
    PutEntry,
    QueueTurn,
    SetTimer,
    TimerKey,
    TimerKind,
)
from orchestrator.records import CallRound, Entry
from orchestrator.storage.changes import ENTRIES_AT_ONCE
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import PageQuery, RunRef
from tests.store.samples import SPEC, change, new_event, new_message, new_run, put_run, put_thread

DEADLINE = TimerKey(TimerKind.DEADLINE)


async def test_a_waiting_run_is_written_beside_the_one_that_is_committed(
    store: ValkeyStore,
) -> None:
    ref = await put_run(store)
    waiting = new_run(ref.thread_id, created_ms=2000)
    events = (new_event(waiting, "created"), new_event(waiting, "queued"))
    await change(store, ref, AddRun(waiting, SPEC, events), SetTimer(DEADLINE, 1, waiting.id))

    other = RunRef(ref.thread_id, waiting.id)
    view = await store.view(other)
    assert (view.run, view.spec) == (waiting, SPEC)
    assert [event for _, event in await store.read_events(other)] == list(events)
    listed = await store.list_runs(ref.thread_id, PageQuery())
    assert [view.run.id for view in listed.items] == [waiting.id, ref.run_id]
    assert [due.ref for due in await store.take_due(1000, 60_000)] == [other]
    await change(store, other)


async def test_another_run_is_put_on_the_ready_stream(store: ValkeyStore) -> None:
    ref = await put_run(store)
    await change(store, ref, QueueTurn("run_2"))
    (due,) = await store.take_turns(100, 1000)
    assert due.ref == RunRef(ref.thread_id, "run_2")
    await store.finish_turns([due.ticket])


async def test_entries_are_taken_back_with_their_places_in_the_lists(store: ValkeyStore) -> None:
    thread = await put_thread(store, messages=2)
    ref = await put_run(store, thread.id)
    last_seq = 2 * ENTRIES_AT_ONCE + 5
    added: list[Entry] = [
        new_message(thread.id, 2),
        CallRound(seq=3, run_id=ref.run_id, turn=0, calls=()),
        new_message(thread.id, last_seq, ref.run_id),
    ]
    await change(store, ref, *map(PutEntry, added))
    after = new_message(thread.id, last_seq + 1)
    await change(store, ref, DropEntries(2, last_seq + 1), PutEntry(after))

    assert [entry.seq for entry in await store.read_entries(thread.id)] == [0, 1, last_seq + 1]
    listed = await store.list_messages(thread.id, PageQuery(order="asc"))
    assert [message.seq for message in listed.items] == [0, 1, last_seq + 1]
    assert (await store.list_messages(thread.id, PageQuery(), ref.run_id)).items == ()


async def test_an_entry_that_was_taken_back_is_a_cursor_still(store: ValkeyStore) -> None:
    thread = await put_thread(store, messages=2)
    ref = await put_run(store, thread.id)
    deleted, kept = (await store.list_messages(thread.id, PageQuery(order="asc"))).items
    await store.delete_message(thread.id, deleted.id)
    own, additional = new_message(thread.id, 3, ref.run_id), new_message(thread.id, 2)
    await change(store, ref, PutEntry(additional), PutEntry(own))
    await change(store, ref, DropEntries(2, 4))
    for gone in (deleted, additional, own):
        before = await store.list_messages(thread.id, PageQuery(before=gone.id, order="asc"))
        assert before.items == (() if gone is deleted else (kept,))
    page = await store.list_messages(thread.id, PageQuery(after=own.id), ref.run_id)
    assert page.items == ()


async def test_dropping_nothing_is_harmless(store: ValkeyStore) -> None:
    thread = await put_thread(store, messages=2)
    ref = await put_run(store, thread.id)
    await change(store, ref, DropEntries(2, 2))
    assert len(await store.read_entries(thread.id)) == 2


async def test_a_run_whose_documents_did_not_change_is_still_guarded(store: ValkeyStore) -> None:
    ref = await put_run(store)
    loaded = await store.load(ref.thread_id, ref.run_id)
    thread = loaded.aggregate.thread.but(metadata={"a": "b"})
    await store.commit(loaded, Decision(loaded.aggregate.but(thread=thread)))
    after = await store.load(ref.thread_id, ref.run_id)
    assert after.run_revision == loaded.run_revision + 1
    assert after.aggregate.thread == thread
