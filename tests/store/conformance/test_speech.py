"""What the model says is logged under the lease of its turn, and nobody commits past it."""

import pytest

from orchestrator.decisions import (
    ClearTimer,
    Decision,
    Event,
    EventType,
    RetireLog,
    SetTimer,
    TimerKey,
    TimerKind,
)
from orchestrator.errors import StaleRevision
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import RunRef
from tests.store.samples import put_run

LEASE = TimerKey(TimerKind.TURN_LEASE, generation=1)
FAR_MS = 10**13


def word(text: str) -> Event:
    return Event(
        type=EventType.MESSAGE_DELTA,
        at_ms=1,
        status="in_progress",
        public_status="in_progress",
        delta={"message_id": "msg_1", "text": text, "is_first": False},
    )


async def speaking_run(store: ValkeyStore) -> RunRef:
    return await put_run(store, effects=[SetTimer(LEASE, FAR_MS)])


async def test_words_go_to_the_log_and_to_the_partial_text(store: ValkeyStore) -> None:
    ref = await speaking_run(store)
    assert await store.say(ref, 1, [word("Hel"), word("lo")], "Hello")
    assert await store.say(ref, 1, [word(" you")], " you")
    told = [event.delta for _, event in await store.read_events(ref) if event.delta]
    assert [delta["text"] for delta in told] == ["Hel", "lo", " you"]
    loaded = await store.load(ref.thread_id, ref.run_id)
    assert loaded.aggregate.partial == "Hello you"


async def test_the_log_can_be_read_without_the_words(store: ValkeyStore) -> None:
    ref = await speaking_run(store)
    before = await store.read_events(ref)
    piece = word("Hel").model_copy(update={"type": EventType.STEP_DELTA})
    assert await store.say(ref, 1, [word("Hel"), piece], "Hel")
    assert await store.read_events(ref, has_deltas=False) == before
    assert len(await store.read_events(ref)) == len(before) + 2


async def test_without_the_lease_nothing_is_written(store: ValkeyStore) -> None:
    ref = await speaking_run(store)
    before = await store.load(ref.thread_id, ref.run_id)
    assert not await store.say(ref, 2, [word("Stale")], "Stale")
    after = await store.load(ref.thread_id, ref.run_id)
    assert (after.run_revision, after.aggregate) == (before.run_revision, before.aggregate)
    assert all(event.delta is None for _, event in await store.read_events(ref))


async def test_a_commit_that_has_not_seen_the_words_is_stale(store: ValkeyStore) -> None:
    ref = await speaking_run(store)
    loaded = await store.load(ref.thread_id, ref.run_id)
    assert await store.say(ref, 1, [word("New")], "New")
    changed = Decision(loaded.aggregate, effects=(ClearTimer(LEASE),))
    with pytest.raises(StaleRevision):
        await store.commit(loaded, changed)
    again = await store.load(ref.thread_id, ref.run_id)
    ended = again.aggregate.but(partial="")
    await store.commit(again, Decision(ended, effects=(ClearTimer(LEASE),)))
    assert (await store.load(ref.thread_id, ref.run_id)).aggregate.partial == ""
    assert not await store.say(ref, 1, [word("Late")], "Late")


async def test_a_retired_log_expires_after_its_retention(store: ValkeyStore) -> None:
    ref = await speaking_run(store)
    await store.say(ref, 1, [word("Bye")], "Bye")
    log = store.keys.home(ref.thread_id).run_log(ref.run_id)
    assert await store._client.pttl(log) == -1
    loaded = await store.load(ref.thread_id, ref.run_id)
    ended = loaded.aggregate.but(partial="")
    await store.commit(loaded, Decision(ended, effects=(RetireLog(),)))
    assert 0 < await store._client.pttl(log) <= store.retention_ms
