"""Slots of a tool: so many holders at once, each for a while."""

from orchestrator.storage.valkey import ValkeyStore
from tests.waiting import until

LONG_MS = 60_000


async def test_there_are_no_more_holders_than_slots(store: ValkeyStore) -> None:
    assert await store.take_slot("pay", "w1", 2, LONG_MS)
    assert await store.take_slot("pay", "w2", 2, LONG_MS)
    assert not await store.take_slot("pay", "w3", 2, LONG_MS)
    assert await store.take_slot("pay", "w1", 2, LONG_MS), "who has one keeps it"
    assert await store.take_slot("other", "w3", 1, LONG_MS)
    await store.free_slot("pay", "w1")
    await store.free_slot("pay", "w1")
    assert await store.take_slot("pay", "w3", 2, LONG_MS)


async def test_a_slot_that_is_not_kept_is_free_again(store: ValkeyStore) -> None:
    assert await store.take_slot("pay", "w1", 2, LONG_MS)
    assert await store.take_slot("pay", "w2", 2, 50)

    async def is_free() -> bool:
        return await store.take_slot("pay", "w3", 2, LONG_MS)

    await until(is_free)
    assert await store.take_slot("pay", "w1", 2, LONG_MS)
    assert not await store.take_slot("pay", "w2", 2, LONG_MS)
