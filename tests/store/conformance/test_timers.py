"""Timers are taken by one, come back if he dies, and are renewed only while they are set."""

import pytest

from orchestrator.decisions import ClearTimer, SetTimer, TimerKey, TimerKind
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import DueTimer
from tests.conftest import PARTITIONS
from tests.store.conformance.conftest import Open
from tests.store.samples import change, put_run
from tests.waiting import until

LEASE = TimerKey(TimerKind.TURN_LEASE, generation=3)
CALL_LEASE = TimerKey(TimerKind.CALL_LEASE, generation=2, call_id="call_1")
LONG_MS = 60_000


async def test_a_due_timer_says_what_it_was_set_for(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 5), SetTimer(CALL_LEASE, 6)])
    due = await store.take_due(100, LONG_MS)
    assert set(due) == {DueTimer(ref, LEASE, 5), DueTimer(ref, CALL_LEASE, 6)}


async def test_a_timer_is_not_due_before_its_time(store: ValkeyStore) -> None:
    soon_ms = await store.now_ms() + 200
    await put_run(store, effects=[SetTimer(LEASE, soon_ms)])
    assert await store.take_due(100, LONG_MS) == ()

    (due,) = await until(lambda: store.take_due(100, LONG_MS))

    assert due.at_ms == soon_ms <= await store.now_ms()


async def test_a_taken_timer_is_left_to_its_taker_and_comes_back(
    store: ValkeyStore, open_another: Open
) -> None:
    other = open_another()
    ref = await put_run(store, effects=[SetTimer(LEASE, 5)])
    assert len(await store.take_due(100, hold_ms=200)) == 1
    assert await other.take_due(100, hold_ms=200) == ()
    (again,) = await until(lambda: other.take_due(100, LONG_MS))
    assert (again.ref, again.key) == (ref, LEASE)


async def test_a_dropped_timer_is_gone(store: ValkeyStore) -> None:
    await put_run(store, effects=[SetTimer(LEASE, 5)])
    (due,) = await store.take_due(100, hold_ms=0)
    await store.drop_timer(due)
    await store.drop_timer(due)
    assert await store.take_due(100, hold_ms=0) == ()


async def test_a_timer_that_was_set_anew_is_not_dropped_by_who_took_it_before(
    store: ValkeyStore,
) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 5)])
    (due,) = await store.take_due(100, LONG_MS)
    await change(store, ref, ClearTimer(LEASE), SetTimer(LEASE, 6))
    await store.drop_timer(due)
    assert [again.at_ms for again in await store.take_due(100, LONG_MS)] == [6]


async def test_a_timer_that_somebody_else_has_taken_meanwhile_is_his(
    store: ValkeyStore, open_another: Open
) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 5)])
    (ours,) = await store.take_due(100, hold_ms=0)
    await until(lambda: _has_passed(store, ours.until_ms))
    (theirs,) = await open_another().take_due(100, hold_ms=0)
    await store.drop_timer(ours)
    await until(lambda: _has_passed(store, theirs.until_ms))
    assert [again.ref for again in await store.take_due(100, LONG_MS)] == [ref]


async def _has_passed(store: ValkeyStore, at_ms: int) -> bool:
    return await store.now_ms() > at_ms


@pytest.mark.parametrize("limit", [1, 5, PARTITIONS, 40])
async def test_a_limit_is_kept_and_nothing_is_missed(store: ValkeyStore, limit: int) -> None:
    refs = {await put_run(store, effects=[SetTimer(LEASE, 5)]) for _ in range(30)}
    taken: list[DueTimer] = []
    while due := await store.take_due(limit, LONG_MS):
        assert len(due) == min(limit, 30 - len(taken))
        taken += due
    assert {timer.ref for timer in taken} == refs
    assert len(taken) == 30


async def test_one_partition_may_fill_the_whole_limit(store: ValkeyStore) -> None:
    leases = [TimerKey(TimerKind.TURN_LEASE, generation) for generation in range(50)]
    await put_run(store, effects=[SetTimer(lease, 5) for lease in leases])
    assert len(await store.take_due(40, LONG_MS)) == 40
    assert len(await store.take_due(40, LONG_MS)) == 10


async def test_a_lease_is_renewed_while_it_is_set(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 5)])
    assert await store.renew(ref, LEASE, LONG_MS)
    assert await store.take_due(100, 0) == ()

    await change(store, ref, ClearTimer(LEASE))

    assert not await store.renew(ref, LEASE, LONG_MS)
    assert not await store.renew(ref, LEASE, 0)
    assert await store.take_due(100, 0) == ()


async def test_a_lease_of_another_generation_is_not_yours(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 5)])
    assert not await store.renew(ref, TimerKey(TimerKind.TURN_LEASE, generation=4), LONG_MS)
    assert await store.renew(ref, LEASE, LONG_MS)


async def test_a_renewed_lease_does_not_pass_its_cap(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 5)])
    cap_ms = await store.now_ms()
    assert await store.renew(ref, LEASE, LONG_MS, cap_ms)
    (due,) = await store.take_due(100, LONG_MS)
    assert due.at_ms == cap_ms


async def test_a_renewal_counts_from_the_clock_of_the_store(store: ValkeyStore) -> None:
    ref = await put_run(store, effects=[SetTimer(LEASE, 5)])
    before_ms = await store.now_ms()
    assert await store.renew(ref, LEASE, 50)
    (due,) = await until(lambda: store.take_due(100, LONG_MS))
    assert before_ms + 50 <= due.at_ms <= await store.now_ms()
