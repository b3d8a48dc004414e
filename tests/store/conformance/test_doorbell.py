"""The doorbell rings for every commit of a run, and says when strokes may have been missed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from orchestrator.decisions import QueueTurn, SendCall, StopCall
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Ring
from tests.store.conformance.conftest import Backend
from tests.store.samples import change, put_run, put_thread


@pytest.fixture
async def rings(store: ValkeyStore) -> AsyncIterator[AsyncIterator[Ring]]:
    """The doorbell, subscribed."""
    async with aclosing(store.rings()) as rings:
        assert await anext(rings) == Ring(None)
        yield rings


async def test_each_commit_of_a_run_rings_and_says_what_it_brought(
    store: ValkeyStore, rings: AsyncIterator[Ring]
) -> None:
    ref = await put_run(store, effects=[QueueTurn()])
    assert await anext(rings) == Ring(ref, "queued", has_turn=True)
    await change(store, ref)
    assert await anext(rings) == Ring(ref, "queued")
    await change(store, ref, SendCall("call_1", "tools", 1))
    assert await anext(rings) == Ring(ref, "queued", has_parcel=True)
    await change(store, ref, StopCall("call_1", "tools", None), QueueTurn())
    assert await anext(rings) == Ring(ref, "queued", has_turn=True, has_parcel=True)


async def test_what_a_stroke_tells_of_can_be_read(
    store: ValkeyStore, rings: AsyncIterator[Ring]
) -> None:
    for number in range(20):
        ref = await put_run(store, effects=[QueueTurn()])
        assert (await anext(rings)).ref == ref
        assert len(await store.read_events(ref)) == 1
        assert len(await store.take_turns(100, 1000)) == 1, number


async def test_a_commit_without_a_run_is_silent(
    store: ValkeyStore, rings: AsyncIterator[Ring]
) -> None:
    await put_thread(store, messages=1)
    ref = await put_run(store)
    assert (await anext(rings)).ref == ref


async def test_a_lost_subscription_is_made_again_and_said(
    store: ValkeyStore, backend: Backend, rings: AsyncIterator[Ring]
) -> None:
    if backend.is_fake:
        pytest.skip("fakeredis loses no connections")
    await store.pipeliner.call("CLIENT", "KILL", "TYPE", "pubsub")
    assert await anext(rings) == Ring(None)
    ref = await put_run(store)
    assert (await anext(rings)).ref == ref


async def test_a_listener_that_is_cancelled_while_it_subscribes_again_ends(
    store: ValkeyStore, backend: Backend
) -> None:
    """At each step of the event loop: some hit what loses a cancellation in Python 3.11."""
    if backend.is_fake:
        pytest.skip("fakeredis loses no connections")
    for steps in range(30):
        rings = store.rings()
        async with aclosing(rings):
            await anext(rings)
            listening = asyncio.create_task(anext(rings))
            await store.pipeliner.call("CLIENT", "KILL", "TYPE", "pubsub")
            for _ in range(steps):
                await asyncio.sleep(0)
            listening.cancel()
            await asyncio.wait({listening}, timeout=5)
            assert listening.cancelled(), steps
