"""The store cuts off a subscriber that is too far behind; no reader loses an event by it."""

import asyncio
from collections.abc import AsyncIterator
from typing import Final

import pytest

from orchestrator.storage.doorbell import ring_payload
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import RunRef
from tests.http.streams.conftest import Player
from tests.http.streams.frames import Frame, joined, read_all

LIMIT: Final = "client-output-buffer-limit"
WORDS: Final = "one two three four five six seven eight nine ten"
RUNS: Final = 6
READERS: Final = 4
BURST: Final = "for _ = 1, 1000 do redis.call('PUBLISH', KEYS[1], ARGV[1]) end"


@pytest.fixture
async def narrow(store: ValkeyStore) -> AsyncIterator[None]:
    """A store that lets subscribers be 4 kB behind."""
    limits = (await store.pipeliner.call("CONFIG", "GET", LIMIT))[1].decode()
    await store.pipeliner.call("CONFIG", "SET", LIMIT, "pubsub 4096 0 0")
    yield
    await store.pipeliner.call("CONFIG", "SET", LIMIT, limits)


async def subscribers(store: ValkeyStore) -> set[bytes]:
    """The connections that listen, by their ids."""
    listed = await store.pipeliner.call("CLIENT", "LIST", "TYPE", "pubsub")
    return {line.split(b" ")[0] for line in listed.splitlines()}


async def test_a_subscription_that_is_cut_for_its_backlog_costs_no_reader_an_event(
    player: Player, store: ValkeyStore, narrow: None
) -> None:
    async def play() -> tuple[str, list[list[Frame]]]:
        body = player.body({"text": WORDS, "chunk_delay_s": 0.1}, stream=False)
        run = (await player.http.post("/v1/threads/runs", json=body)).json()
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/events"
        return path, await asyncio.gather(
            *(read_all(player.http, "GET", path) for _ in range(READERS))
        )

    playing = [asyncio.create_task(play()) for _ in range(RUNS)]
    cuts = 0
    while not all(task.done() for task in playing):
        before = await subscribers(store)
        ring = ring_payload(RunRef("thread_none", "run_none"), "queued")
        for partition in store.keys.partitions[:1]:
            await store.pipeliner.call("EVAL", BURST, 1, partition.bell, ring)
        cuts += bool(before) and not before & await subscribers(store)
        await asyncio.wait(playing, timeout=0.1)
    assert cuts
    for path, told in await asyncio.gather(*playing):
        assert joined(told[0]) == WORDS
        log = await read_all(player.http, "GET", path)
        assert all(one == log for one in told)
