"""A commit writes everything of a decision, or nothing, and only once."""

import asyncio
from dataclasses import replace

import pytest

from orchestrator.decisions import (
    ClearTimer,
    Decision,
    KeepOutput,
    PutEntry,
    QueueTurn,
    SendCall,
    SetTimer,
    TimerKey,
    TimerKind,
)
from orchestrator.errors import NotFound, StaleRevision, StoreUnavailable
from orchestrator.ids import mint
from orchestrator.records import Aggregate, Thread
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import RunRef
from tests.leaks import left_keys
from tests.store.conformance.conftest import Open
from tests.store.faults import Faulty
from tests.store.samples import (
    SPEC,
    change,
    changed,
    delete_thread,
    new_call,
    new_event,
    new_message,
    new_run,
    new_step,
    put_run,
    put_thread,
)

LEASE = TimerKey(TimerKind.TURN_LEASE, generation=3)
SEND = SendCall("call_1", "tools", 600_000)


async def test_an_aggregate_is_loaded_as_it_was_committed(store: ValkeyStore) -> None:
    fresh = await store.load((await put_thread(store)).id)
    thread = fresh.aggregate.thread
    steps = (new_step(0), new_step(1))
    calls = (new_call(steps[0]), new_call(steps[1], 0), new_call(steps[1], 1))
    run = new_run(thread.id)
    written = Aggregate(thread=thread, run=run, spec=SPEC, steps=steps, calls=calls)
    await store.commit(fresh, Decision(written))

    loaded = await store.load(thread.id, run.id)

    assert loaded.aggregate == written
    assert (loaded.thread_revision, loaded.run_revision) == (1, 1)
    assert abs(loaded.now_ms - await store.now_ms()) < 5_000


async def test_a_fresh_thread_has_the_time_of_the_store(store: ValkeyStore) -> None:
    before_ms = await store.now_ms()
    loaded = await store.fresh(Thread(id=mint("thread"), created_ms=0))
    assert before_ms <= loaded.aggregate.thread.created_ms <= await store.now_ms()
    with pytest.raises(NotFound):
        await store.load(loaded.aggregate.thread.id)


async def test_a_thread_and_its_first_run_can_be_one_commit(store: ValkeyStore) -> None:
    loaded = await store.fresh(Thread(id=mint("thread"), created_ms=0))
    run = new_run(loaded.aggregate.thread.id)
    thread = loaded.aggregate.thread.but(active_run_id=run.id)
    await store.commit(loaded, Decision(Aggregate(thread=thread, run=run, spec=SPEC)))
    assert (await store.load_active(thread.id)).aggregate.run == run


async def test_everything_of_a_decision_appears_in_the_same_step(store: ValkeyStore) -> None:
    ref = await put_run(store)
    message = new_message(ref.thread_id, 0, ref.run_id)
    timer = SetTimer(LEASE, at_ms=1)

    await change(store, ref, PutEntry(message), timer, QueueTurn(), SEND)

    assert len(await store.read_events(ref)) == 2
    assert await store.read_entries(ref.thread_id) == (message,)
    assert [due.key for due in await store.take_due(100, 1000)] == [LEASE]
    assert [due.ref for due in await store.take_turns(100, 1000)] == [ref]
    assert [parcel.order for parcel in await store.take_parcels(100, 1000)] == [SEND]


async def test_a_stale_revision_of_the_run_refuses_everything(store: ValkeyStore) -> None:
    ref = await put_run(store)
    stale = await store.load(ref.thread_id, ref.run_id)
    await change(store, ref)
    current = await store.load(ref.thread_id, ref.run_id)
    message = new_message(ref.thread_id, 0, ref.run_id)

    with pytest.raises(StaleRevision):
        await store.commit(
            *changed(stale, PutEntry(message), SetTimer(LEASE, 1), QueueTurn(), SEND)
        )

    after = await store.load(ref.thread_id, ref.run_id)
    assert (after.aggregate, after.run_revision) == (current.aggregate, current.run_revision)
    assert len(await store.read_events(ref)) == 2
    assert await store.read_entries(ref.thread_id) == ()
    assert await store.take_due(100, 1000) == ()
    assert await store.take_turns(100, 1000) == ()
    assert await store.take_parcels(100, 1000) == ()


async def test_a_stale_revision_of_the_thread_refuses_a_change_of_the_run(
    store: ValkeyStore,
) -> None:
    ref = await put_run(store)
    stale = await store.load(ref.thread_id, ref.run_id)
    await store.modify_thread(ref.thread_id, {"metadata": {"a": "b"}})
    with pytest.raises(StaleRevision):
        await store.commit(*changed(stale))


async def test_of_many_commits_under_one_revision_one_is_taken(store: ValkeyStore) -> None:
    ref = await put_run(store)
    attempt = changed(await store.load(ref.thread_id, ref.run_id))
    outcomes = await asyncio.gather(
        *(store.commit(*attempt) for _ in range(20)), return_exceptions=True
    )
    assert outcomes.count(None) == 1
    assert sum(isinstance(outcome, StaleRevision) for outcome in outcomes) == 19
    assert len(await store.read_events(ref)) == 2


async def test_what_exists_is_not_created_again(store: ValkeyStore) -> None:
    ref = await put_run(store)
    loaded = await store.load(ref.thread_id, ref.run_id)
    with pytest.raises(StaleRevision):
        await store.commit(replace(loaded, thread_revision=0), Decision(loaded.aggregate))
    with pytest.raises(StaleRevision):
        await store.commit(replace(loaded, run_revision=0), Decision(loaded.aggregate))


async def test_a_commit_to_a_deleted_thread_leaves_no_key(store: ValkeyStore) -> None:
    ref = await put_run(store)
    late = changed(await store.load(ref.thread_id, ref.run_id), SetTimer(LEASE, 1))
    await delete_thread(store, ref.thread_id)
    with pytest.raises(StaleRevision):
        await store.commit(*late)
    assert await left_keys(store._client, "rs") == []


async def test_the_revision_of_the_thread_rises_only_when_it_changes(store: ValkeyStore) -> None:
    ref = await put_run(store)
    before = await store.load(ref.thread_id, ref.run_id)
    await change(store, ref)
    unchanged = await store.load(ref.thread_id, ref.run_id)
    assert unchanged.thread_revision == before.thread_revision
    assert unchanged.run_revision == before.run_revision + 1

    thread = unchanged.aggregate.thread.but(active_run_id=ref.run_id)
    await store.commit(unchanged, Decision(unchanged.aggregate.but(thread=thread)))

    after = await store.load(ref.thread_id, ref.run_id)
    assert after.thread_revision == before.thread_revision + 1
    assert after.aggregate.thread == thread


async def test_only_documents_that_changed_are_written(store: ValkeyStore) -> None:
    ref = await put_run(store)
    mark = SPEC.but(instructions="written by somebody else").model_dump_json()
    key = store.keys.home(ref.thread_id).run(ref.run_id)
    await store.pipeliner.call("HSET", key, "spec", mark)
    loaded, decision = changed(await store.load(ref.thread_id, ref.run_id))
    await store.pipeliner.call("HSET", key, "spec", SPEC.model_dump_json())
    await store.commit(loaded, decision)
    assert (await store.view(ref)).spec == SPEC


async def test_a_commit_whose_answer_was_lost_counts_once(store: ValkeyStore) -> None:
    ref = await put_run(store)
    decided = changed(await store.load(ref.thread_id, ref.run_id), QueueTurn())
    faulty = Faulty(store, fail_at=1, after=True)

    await store.commit(*decided)

    assert faulty.calls == 2
    assert len(await store.read_events(ref)) == 2
    assert len(await store.take_turns(100, 1000)) == 1


async def test_a_lost_answer_counts_once_even_when_others_have_gone_on_meanwhile(
    store: ValkeyStore, open_another: Open
) -> None:
    other = open_another()
    ref = await put_run(store)
    decided = changed(await store.load(ref.thread_id, ref.run_id), QueueTurn())

    async def go_on() -> None:
        for _ in range(5):
            await change(other, ref)

    Faulty(store, fail_at=1, after=True, meanwhile=go_on)
    await store.commit(*decided)

    assert len(await store.read_events(ref)) == 1 + 1 + 5
    assert len(await store.take_turns(100, 1000)) == 1


async def test_a_new_message_whose_answer_was_lost_is_there_once(
    store: ValkeyStore, open_another: Open
) -> None:
    other = open_another()
    thread = await put_thread(store)
    loaded = await store.load(thread.id)
    decided = Decision(
        Aggregate(thread=thread.but(next_seq=1)), effects=(PutEntry(new_message(thread.id, 0)),)
    )
    Faulty(
        store,
        fail_at=1,
        after=True,
        meanwhile=lambda: other.modify_thread(thread.id, {"metadata": {"a": "b"}}),
    )
    await store.commit(loaded, decided)
    assert len(await store.read_entries(thread.id)) == 1
    assert (await store.load(thread.id)).aggregate.thread.metadata == {"a": "b"}


async def test_a_commit_that_never_arrived_is_repeated(store: ValkeyStore) -> None:
    ref = await put_run(store)
    decided = changed(await store.load(ref.thread_id, ref.run_id))
    Faulty(store, fail_at=1, after=False)
    await store.commit(*decided)
    assert len(await store.read_events(ref)) == 2


async def test_a_repetition_that_lost_the_race_is_stale(
    store: ValkeyStore, open_another: Open
) -> None:
    other = open_another()
    ref = await put_run(store)
    decided = changed(await store.load(ref.thread_id, ref.run_id))
    Faulty(store, fail_at=1, after=False, meanwhile=lambda: change(other, ref))
    with pytest.raises(StaleRevision):
        await store.commit(*decided)


async def test_reads_are_not_repeated(store: ValkeyStore) -> None:
    ref = await put_run(store)
    faulty = Faulty(store, fail_at=1, after=False)
    with pytest.raises(StoreUnavailable):
        await store.view(ref)
    assert faulty.calls == 1


async def test_events_are_read_after_an_id(store: ValkeyStore) -> None:
    ref = await put_run(store)
    for number in range(3):
        loaded = await store.load(ref.thread_id, ref.run_id)
        run = loaded.aggregate.run
        assert run is not None
        events = (new_event(run, f"{number}a"), new_event(run, f"{number}b"))
        await store.commit(loaded, Decision(loaded.aggregate, events))

    everything = await store.read_events(ref)

    details = [event.detail for _, event in everything]
    assert details == [None, "0a", "0b", "1a", "1b", "2a", "2b"]
    for place, (event_id, _) in enumerate(everything, 1):
        assert await store.read_events(ref, event_id) == everything[place:]


async def test_clearing_a_timer_that_is_not_set_is_harmless(store: ValkeyStore) -> None:
    ref = await put_run(store)
    await change(store, ref, ClearTimer(LEASE))
    assert await store.take_due(10, 1) == ()


@pytest.mark.parametrize("thread_id", ["", "thread_1:x", "x}:{y", "päge 1\n"])
async def test_an_id_that_nobody_minted_is_not_found(store: ValkeyStore, thread_id: str) -> None:
    with pytest.raises(NotFound):
        await store.load(thread_id)
    with pytest.raises(NotFound):
        await store.view(RunRef(thread_id, thread_id))


async def test_the_whole_of_a_cut_output_is_kept_and_goes_with_its_thread(
    store: ValkeyStore,
) -> None:
    thread = await put_thread(store)
    ref = await put_run(store, thread.id)
    assert await store.read_full_output(ref, "call_1") is None
    await change(store, ref, KeepOutput("call_1", "ä" * 500_000))
    assert await store.read_full_output(ref, "call_1") == "ä" * 500_000
    await delete_thread(store, thread.id)
    assert await store.read_full_output(ref, "call_1") is None
