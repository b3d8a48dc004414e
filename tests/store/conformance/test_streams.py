"""Turns and parcels are given to one taker, and to another if he never finishes them."""

import asyncio

import pytest

from orchestrator.decisions import QueueTurn, SendCall, StopCall
from orchestrator.storage.streams import GROUP
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import DueTurn
from tests.conftest import PARTITIONS
from tests.store.conformance.conftest import Open
from tests.store.samples import change, put_run
from tests.waiting import until

LONG_MS = 60_000
SEND = SendCall("call_1", "tools", 600_000)
STOPS = (StopCall("call_2", "tools", None), StopCall("call_3", "tools", "worker_1"))


async def test_a_turn_is_taken_once(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[QueueTurn()])
    (turn,) = await store.take_turns(100, LONG_MS)
    assert turn.ref == ref
    assert await store.take_turns(100, LONG_MS) == ()


async def test_two_takers_never_get_the_same_turn(store: ValkeyStore, open_another: Open) -> None:
    refs = {await put_run(store, effects=[QueueTurn()]) for _ in range(60)}
    takers = [store, open_another(), open_another()]
    taken: list[DueTurn] = []
    while batches := [
        batch
        for batch in await asyncio.gather(*(taker.take_turns(7, LONG_MS) for taker in takers))
        if batch
    ]:
        taken += [turn for batch in batches for turn in batch]
    assert len(taken) == len(refs)
    assert {turn.ref for turn in taken} == refs


@pytest.mark.parametrize("limit", [1, 5, PARTITIONS, 40])
async def test_a_limit_is_kept_and_nothing_is_missed(store: ValkeyStore, limit: int) -> None:
    refs = {await put_run(store, effects=[QueueTurn()]) for _ in range(30)}
    taken: list[DueTurn] = []
    while turns := await store.take_turns(limit, LONG_MS):
        assert len(turns) == min(limit, 30 - len(taken))
        taken += turns
    assert {turn.ref for turn in taken} == refs


async def test_a_limit_counts_old_and_new_turns_together(store: ValkeyStore) -> None:
    thread_id = (await put_run(store)).thread_id
    for _ in range(20):
        await put_run(store, thread_id, [QueueTurn()])
    assert len(await store.take_turns(100, LONG_MS)) == 20
    for _ in range(20):
        await put_run(store, thread_id, [QueueTurn()])
    ready = store.keys.home(thread_id).ready

    async def are_idle() -> bool:
        idle = await store._client.xpending_range(ready, GROUP, "-", "+", 100, idle=200)
        return len(idle) == 20

    await until(are_idle)
    found = await store.take_turns(2 * PARTITIONS, idle_ms=200)
    assert len(found) == 2 * PARTITIONS
    assert len({turn.ticket for turn in found}) == 2 * PARTITIONS


async def test_turns_of_one_partition_come_in_their_order(store: ValkeyStore) -> None:
    ref = await put_run(store)
    refs = [await put_run(store, ref.thread_id, [QueueTurn()]) for _ in range(20)]
    assert [turn.ref for turn in await store.take_turns(20, LONG_MS)] == refs


async def test_a_turn_that_was_taken_and_not_finished_goes_to_another(
    store: ValkeyStore, open_another: Open
) -> None:
    ref = await put_run(store, effects=[QueueTurn()])
    (lost,) = await store.take_turns(100, LONG_MS)
    (found,) = await until(lambda: open_another().take_turns(100, idle_ms=50))
    assert (found.ref, found.ticket) == (ref, lost.ticket)
    assert await store.take_turns(100, LONG_MS) == ()


async def test_a_finished_turn_never_comes_back(store: ValkeyStore) -> None:
    for _ in range(5):
        await put_run(store, effects=[QueueTurn()])
    turns = await store.take_turns(100, LONG_MS)
    await store.finish_turns([turn.ticket for turn in turns[:4]])
    await store.finish_turns([turn.ticket for turn in turns[:4]])
    await store.finish_turns([])
    left = await until(lambda: store.take_turns(100, idle_ms=1))
    assert [turn.ticket for turn in left] == [turns[4].ticket]


async def test_finished_entries_take_no_room(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[QueueTurn(), SEND])
    home = store.keys.home(ref.thread_id)
    await store.finish_turns([t.ticket for t in await store.take_turns(9, LONG_MS)])
    await store.finish_parcels([p.ticket for p in await store.take_parcels(9, LONG_MS)])
    assert await store.pipeliner.call("XLEN", home.ready) == 0
    assert await store.pipeliner.call("XLEN", home.outbox) == 0


async def test_parcels_come_as_they_were_sent(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[SEND, *STOPS])
    parcels = await store.take_parcels(100, LONG_MS)
    assert [parcel.order for parcel in parcels] == [SEND, *STOPS]
    assert {parcel.ref for parcel in parcels} == {ref}
    assert await store.take_turns(100, LONG_MS) == ()
    await store.finish_parcels([parcel.ticket for parcel in parcels])
    assert await store.take_parcels(100, idle_ms=0) == ()


async def test_work_is_found_after_the_groups_were_lost(store: ValkeyStore) -> None:
    await store._client.flushall()
    assert await store.take_turns(100, LONG_MS) == ()
    ref = await put_run(store, effects=[QueueTurn()])
    await store._client.delete(store.keys.home(ref.thread_id).ready)
    await change(store, ref, QueueTurn())
    assert [turn.ref for turn in await store.take_turns(100, LONG_MS)] == [ref]


async def test_takers_leave_no_trace_in_the_groups(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[QueueTurn()])
    await store.take_turns(100, LONG_MS)
    await store.take_turns(100, LONG_MS)
    stream = store.keys.home(ref.thread_id).ready
    (group,) = await store._client.xinfo_groups(stream)
    assert group["consumers"] == 1
