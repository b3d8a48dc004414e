"""Reading runs, entries and outputs."""

import pytest

from orchestrator.decisions import Decision, PutEntry
from orchestrator.errors import NotFound
from orchestrator.records import AskedCall, CallRound, Entry, Output
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import PageQuery, RunRef
from tests.store.conformance.conftest import Open
from tests.store.faults import Faulty
from tests.store.samples import SPEC, change, new_message, new_run, put_run, put_thread


async def put_entries(store: ValkeyStore, thread_id: str, *entries: Entry) -> None:
    loaded = await store.load(thread_id)
    thread = loaded.aggregate.thread.but(next_seq=len(entries))
    effects = tuple(PutEntry(entry) for entry in entries)
    await store.commit(loaded, Decision(loaded.aggregate.but(thread=thread), effects=effects))


async def test_a_run_is_found_only_under_its_own_thread(store: ValkeyStore) -> None:
    ref = await put_run(store)
    others = [await put_thread(store) for _ in range(20)]  # some share the run's partition
    for other in others:
        with pytest.raises(NotFound, match=r"No run has"):
            await store.load(other.id, ref.run_id)
        with pytest.raises(NotFound, match=r"No run has"):
            await store.view(RunRef(other.id, ref.run_id))


async def test_what_is_missing_is_named(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    with pytest.raises(NotFound, match=r"No thread has the id thread_x"):
        await store.load("thread_x", "run_x")
    with pytest.raises(NotFound, match=r"No thread has the id thread_x"):
        await store.view(RunRef("thread_x", "run_x"))
    with pytest.raises(NotFound, match=r"No run has the id run_x"):
        await store.load(thread.id, "run_x")
    with pytest.raises(NotFound, match=r"No run has the id run_x"):
        await store.find_run("run_x")


async def test_a_view_is_one_call_to_the_server(store: ValkeyStore) -> None:
    ref = await put_run(store)
    counting = Faulty(store, fail_at=0, after=False)
    view = await store.view(ref)
    assert counting.calls == 1
    assert (view.run.id, view.spec, view.steps, view.calls) == (ref.run_id, SPEC, (), ())


async def test_the_active_run_is_loaded_with_its_thread(store: ValkeyStore) -> None:
    ref = await put_run(store)
    idle = await store.load_active(ref.thread_id)
    assert (idle.aggregate.run, idle.run_revision) == (None, 0)

    busy = idle.aggregate.thread.but(active_run_id=ref.run_id)
    await store.commit(idle, Decision(idle.aggregate.but(thread=busy)))

    loaded = await store.load_active(ref.thread_id)
    assert loaded.aggregate == (await store.load(ref.thread_id, ref.run_id)).aggregate
    assert (loaded.thread_revision, loaded.run_revision) == (2, 1)


async def test_a_run_that_ends_while_it_is_loaded_is_no_active_run(
    store: ValkeyStore, open_another: Open
) -> None:
    other = open_another()
    ref = await put_run(store)
    loaded = await store.load(ref.thread_id)
    busy = loaded.aggregate.thread.but(active_run_id=ref.run_id)
    await store.commit(loaded, Decision(loaded.aggregate.but(thread=busy)))
    inner = store.load

    async def load_and_be_overtaken(thread_id: str, run_id: str | None = None) -> object:
        found = await inner(thread_id, run_id)
        store.load = inner  # type: ignore[method-assign]
        free = await other.load(thread_id)
        thread = free.aggregate.thread.but(active_run_id=None)
        await other.commit(free, Decision(free.aggregate.but(thread=thread)))
        return found

    store.load = load_and_be_overtaken  # type: ignore[method-assign,assignment]
    overtaken = await store.load_active(ref.thread_id)

    assert overtaken.aggregate.run is None
    assert overtaken.aggregate.thread.active_run_id is None
    assert overtaken.run_revision == 0


async def test_a_run_is_found_by_its_id_alone(store: ValkeyStore) -> None:
    refs = [await put_run(store) for _ in range(20)]
    assert [await store.find_run(ref.run_id) for ref in refs] == refs


async def test_recent_runs_are_the_newest_of_all_threads(store: ValkeyStore) -> None:
    refs = [await put_run(store, created_ms=1000 + number // 2) for number in range(20)]
    newest = [ref.run_id for ref in reversed(refs)]
    recent = await store.recent_runs(PageQuery(limit=5))
    assert ([view.run.id for view in recent.items], recent.has_more) == (newest[:5], True)
    rest = await store.recent_runs(PageQuery(limit=100, after=newest[4]))
    assert ([view.run.id for view in rest.items], rest.has_more) == (newest[5:], False)


async def test_the_transcript_is_in_order_of_seq(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    entries = [new_message(thread.id, seq) for seq in range(120)]
    await put_entries(store, thread.id, *reversed(entries))
    assert await store.read_entries(thread.id) == tuple(entries)
    assert await store.read_entries("thread_x") == ()


async def test_every_kind_of_entry_comes_back_as_it_was(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    call = AskedCall(call_id="call_1", name="look_up", arguments="{not json")
    entries: list[Entry] = [
        new_message(thread.id, 0, text="Grüße, \N{SNOWMAN} \x00"),
        CallRound(seq=1, run_id="run_1", turn=0, calls=(call,)),
        Output(seq=2, run_id="run_1", call_id="call_1", text='{"a": [1, null]}'),
    ]
    await put_entries(store, thread.id, *entries)
    assert await store.read_entries(thread.id) == tuple(entries)


async def test_outputs_are_read_by_their_places(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    outputs = [
        Output(seq=seq, run_id="run_1", call_id=f"call_{seq}", text=str(seq)) for seq in range(4)
    ]
    await put_entries(store, thread.id, *outputs)
    assert await store.read_outputs(thread.id, [1, 3, 99]) == {"call_1": "1", "call_3": "3"}
    assert await store.read_outputs(thread.id, []) == {}


async def test_explicit_nulls_survive(store: ValkeyStore) -> None:
    thread = await put_thread(store)
    run = new_run(thread.id)
    spec = SPEC.but(temperature=None, top_p=None)
    loaded = await store.load(thread.id)
    await store.commit(loaded, Decision(loaded.aggregate.but(run=run, spec=spec)))
    assert (await store.view(RunRef(thread.id, run.id))).spec == spec


async def test_the_log_shows_documents_as_they_were(store: ValkeyStore) -> None:
    ref = await put_run(store)
    before = (await store.view(ref)).run
    await change(store, ref)
    events = [event for _, event in await store.read_events(ref)]
    assert [event.run for event in events] == [before, (await store.view(ref)).run]
