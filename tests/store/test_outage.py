"""A server that stops, restarts, or answers too late."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path

import pytest
from pydantic import SecretStr

from orchestrator import shell
from orchestrator.decisions import QueueTurn
from orchestrator.errors import StoreUnavailable
from orchestrator.receipts import Attempt
from orchestrator.settings import Settings
from orchestrator.storage import embedded
from orchestrator.storage.valkey import ValkeyStore, connect, open_store
from orchestrator.store import PageQuery, Presence, Ring
from tests.conftest import PARTITIONS, PREFIX
from tests.store.faults import Faulty
from tests.store.samples import change, changed, delete_thread, put_run, put_thread
from tests.waiting import until


class OwnServer:
    """A server of the test's own, which it may stop and start again."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._now = embedded.start(folder, fsync="always")

    def url(self, options: str = "") -> SecretStr:
        """The address, with these further options."""
        plain = self._now.url.get_secret_value()
        return SecretStr(plain + ("&" if "?" in plain else "?") + options)

    def freeze(self) -> None:
        """It takes everything in and answers nothing."""
        os.kill(self._now.pid, signal.SIGSTOP)

    def thaw(self) -> None:
        """It goes on with what has come in meanwhile."""
        os.kill(self._now.pid, signal.SIGCONT)

    async def stop(self) -> None:
        await asyncio.to_thread(self._now.stop)

    async def start(self) -> None:
        self._now = await asyncio.to_thread(embedded.start, self._folder, fsync="always")


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[OwnServer]:
    server = OwnServer(tmp_path)
    yield server
    await server.stop()


@pytest.fixture
async def hasty(server: OwnServer) -> AsyncIterator[ValkeyStore]:
    """A store whose reads wait only 50 ms."""
    store = ValkeyStore(connect(server.url("socket_timeout=0.05")), PREFIX, PARTITIONS)
    yield store
    await store.close()


@pytest.fixture
async def store(server: OwnServer) -> AsyncIterator[ValkeyStore]:
    store = await open_store(Settings(redis_url=server.url()))
    yield store
    await store.close()


async def test_a_commit_outlasts_a_restart_of_the_server(
    store: ValkeyStore, server: OwnServer
) -> None:
    ref = await put_run(store)
    decided = changed(await store.load(ref.thread_id, ref.run_id), QueueTurn())
    await server.stop()
    commit = asyncio.create_task(store.commit(*decided))
    with pytest.raises(StoreUnavailable):
        await store.view(ref)
    assert not commit.done()

    await server.start()
    await commit

    assert len(await store.read_events(ref)) == 2
    assert len(await store.take_turns(100, 1000)) == 1


async def test_an_answer_that_comes_too_late_counts_once(
    server: OwnServer, store: ValkeyStore, hasty: ValkeyStore
) -> None:
    ref = await put_run(store)
    decided = changed(await hasty.load(ref.thread_id, ref.run_id), QueueTurn())
    counting = Faulty(hasty, fail_at=0, after=False)

    async def was_repeated() -> bool:
        return counting.calls >= 3

    server.freeze()
    commit = asyncio.create_task(hasty.commit(*decided))
    await until(was_repeated)
    server.thaw()
    await commit

    assert len(await store.read_events(ref)) == 2
    assert len(await store.take_turns(100, 1000)) == 1


async def test_the_doorbell_rings_again_after_a_restart(
    store: ValkeyStore, server: OwnServer
) -> None:
    async with aclosing(store.rings()) as rings:
        assert await anext(rings) == Ring(None)
        await server.stop()
        await server.start()
        assert await anext(rings) == Ring(None)
        ref = await put_run(store)
        assert (await anext(rings)).ref == ref


async def test_silence_longer_than_a_reads_timeout_is_no_lost_subscription(
    store: ValkeyStore, hasty: ValkeyStore
) -> None:
    async with aclosing(hasty.rings()) as rings:
        assert await anext(rings) == Ring(None)
        next_ring = asyncio.ensure_future(anext(rings))
        assert await asyncio.wait({next_ring}, timeout=0.3) == (set(), {next_ring})
        ref = await put_run(store)
        assert (await next_ring).ref == ref


async def test_deleting_works_in_a_full_store_and_makes_room(store: ValkeyStore) -> None:
    ref, other = await put_run(store), await put_thread(store)
    used = await store._client.info("memory")
    await store._client.config_set("maxmemory", used["used_memory"] // 2)
    with pytest.raises(StoreUnavailable):
        await store.beat(Presence("engine", "e1"), 1000)
    await delete_thread(store, ref.thread_id)
    await shell.delete_thread(store, other.id, Attempt("name", 60_000))
    await store._client.config_set("maxmemory", 0)
    assert (await store.recent_runs(PageQuery(10))).items == ()
    ref = await put_run(store)
    await change(store, ref)
