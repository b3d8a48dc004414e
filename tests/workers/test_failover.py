"""A store that fails over to its replica, while connections to the old primary stay open."""

from collections.abc import AsyncIterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from orchestrator.errors import StoreUnavailable
from orchestrator.housekeeping import timers
from orchestrator.records import CallState, ToolCall
from orchestrator.settings import Settings
from orchestrator.storage.embedded import find_binary
from orchestrator.storage.valkey import connect, open_store
from tests.store.servers import serve
from tests.waiting import until
from tests.workers.scene import Asked, Scene, noted
from tests.workers.slow_line import SlowLine, slow_line

BOTH_KINDS = pytest.mark.parametrize(
    ("queue", "name"), [("tools", "count_and_wait"), ("tools-io", "count_and_wait_inline")]
)


class Pair:
    """A primary and its replica, behind one address."""

    def __init__(self, primary: Redis, replica: Redis, line: SlowLine) -> None:
        self.primary = primary
        self.replica = replica
        self.line = line

    async def is_in_step(self) -> bool:
        """Whether the replica has all of it."""
        link = await self.replica.info("replication")
        return link["master_link_status"] == "up" and await self.primary.wait(1, 1000) == 1

    async def fail_over(self) -> None:
        """The replica is the primary from now on, and the other way round."""
        await until(self.is_in_step)
        await self.replica.replicaof("NO", "ONE")
        new_port = _port(self.replica)
        self.line.server_port = new_port
        await self.primary.replicaof("127.0.0.1", new_port)


def _port(client: Redis) -> int:
    port: int = client.connection_pool.connection_kwargs["port"]
    return port


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    with ExitStack() as exits:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
        at_once = {"repl_diskless_sync_delay": 0}  # it waits five seconds for more replicas
        one = connect(exits.enter_context(serve(find_binary(), tmp_path / "one", **at_once)))
        other = f"127.0.0.1 {_port(one)}"
        two = connect(exits.enter_context(serve(find_binary(), tmp_path / "two", replicaof=other)))
        async with slow_line(_port(one)) as line, one, two:
            yield Pair(one, two, line)


@pytest.fixture
async def scene(pair: Pair, tmp_path: Path) -> AsyncIterator[Scene]:
    settings = Settings(redis_url=SecretStr(f"redis://127.0.0.1:{pair.line.port}/0"))
    scene = Scene(await open_store(settings), settings, tmp_path)
    yield scene
    await scene.close()
    await scene.store.close()


async def settled(scene: Scene, asked: Asked) -> ToolCall:
    """The call, once it has an output; an engine goes on when the store was away."""

    async def look() -> ToolCall | None:
        with suppress(StoreUnavailable):
            await timers.fire_due(scene.store)
            await scene.deliver()
            call = await asked.now()
            return call if call.is_settled else None
        return None

    return await until(look, within_s=30)


async def asked_at_last(scene: Scene, name: str) -> Asked:
    """A call, asked for until the store takes it."""

    async def ask() -> Asked | None:
        with suppress(StoreUnavailable):
            return await scene.ask(name, path=str(scene.notes))
        return None

    return await until(ask)


@BOTH_KINDS
async def test_a_call_and_its_worker_outlive_a_fail_over(
    scene: Scene, pair: Pair, queue: str, name: str
) -> None:
    worker = scene.start_worker(queue)
    asked = await scene.ask(name, path=str(scene.notes), seconds=1)
    await noted(scene.notes)
    await pair.fail_over()
    call = await settled(scene, asked)
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 1)

    again = await asked_at_last(scene, name)
    assert (await settled(scene, again)).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes, 2)) == 2
    assert worker.poll() is None


@BOTH_KINDS
async def test_a_worker_that_waits_for_a_job_outlives_a_fail_over(
    scene: Scene, pair: Pair, queue: str, name: str
) -> None:
    worker = scene.start_worker(queue)

    async def is_waiting() -> bool:
        clients = await pair.primary.client_list()
        return any("b" in client["flags"] for client in clients)

    await until(is_waiting)
    await pair.fail_over()

    call = await settled(scene, await asked_at_last(scene, name))
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 1)
    assert worker.poll() is None
