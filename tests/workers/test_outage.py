"""Workers outlive their servers: they wait, and go on."""

import os
import signal
import socket
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from redis import Redis

from orchestrator.commands import Cancel
from orchestrator.records import CallState
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.storage import embedded
from orchestrator.storage.valkey import open_store
from tests.waiting import until
from tests.workers.scene import Scene, gone, noted


class Server:
    """A server that comes and goes at one address."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.up()

    def up(self) -> None:
        self.now = embedded.start(self.folder, port=self.port)

    def down(self) -> None:
        self.now.stop()

    def crash(self) -> None:
        os.kill(self.now.pid, signal.SIGKILL)
        self.now.stop()


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(tmp_path / "data")
    yield server
    server.down()


@pytest.fixture
async def scene(server: Server, tmp_path: Path) -> AsyncIterator[Scene]:
    settings = Settings(redis_url=server.now.url)
    store = await open_store(settings)
    scene = Scene(store, settings, tmp_path)
    yield scene
    await scene.close()
    await scene.store.close()


async def test_a_worker_that_starts_before_its_servers_waits_for_them(
    server: Server, scene: Scene
) -> None:
    server.down()
    worker = scene.start_worker()
    await until(lambda: said(scene, "queue.unavailable"))
    server.up()
    await scene.reconnect()
    asked = await scene.ask("add", a=1, b=2)
    assert await asked.output() == 3
    assert worker.poll() is None


async def test_a_worker_says_why_it_cannot_reach_its_servers(server: Server, scene: Scene) -> None:
    url = server.now.url.get_secret_value().replace("redis://:", "redis://:no-")
    scene.start_worker(RUNSTATE_REDIS_URL=url)
    await until(lambda: said(scene, "invalid username-password pair"))
    worker = scene.start_worker(
        RUNSTATE_REDIS_URL=url, RUNSTATE_QUEUE_URL=server.now.url.get_secret_value()
    )
    await until(lambda: said(scene, "The store does not serve us: invalid username-password"))
    assert worker.poll() is None


async def test_an_idle_worker_outlives_a_crash_and_can_still_be_told_to_stop(
    server: Server, scene: Scene
) -> None:
    worker = scene.start_worker()
    await (await scene.ask("add", a=1, b=2)).settled()
    server.crash()
    await until(lambda: said(scene, "queue.unavailable"))
    server.up()
    await scene.reconnect()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=60)
    (child,) = await noted(scene.notes)
    await change_run(scene.store, asked.ref, Cancel(5_000))
    await scene.deliver()
    await gone(child, within_s=5)
    assert worker.poll() is None


async def test_an_answer_is_kept_until_the_store_is_back(server: Server, scene: Scene) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=1)
    await noted(scene.notes)
    server.crash()
    await until(lambda: said(scene, "store.unavailable"))
    server.up()
    await scene.reconnect()
    assert (await asked.settled()).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes)) == 1
    assert worker.poll() is None


async def test_a_stop_that_comes_after_the_answer_does_not_undo_it(
    server: Server, scene: Scene
) -> None:
    scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=1)
    (child,) = await noted(scene.notes)
    server.crash()

    async def is_brought_in_vain() -> bool:
        lines = scene.log.read_text().splitlines()
        return any("store.unavailable" in line and asked.id in line for line in lines)

    await until(is_brought_in_vain)
    os.kill(child, signal.SIGTERM)
    server.up()
    await scene.reconnect()
    assert (await asked.settled()).state is CallState.SUCCEEDED


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stuck"])
async def test_a_call_whose_child_cannot_claim_it_any_more_is_done_in_the_end(
    server: Server, scene: Scene, redis_url: SecretStr, how: signal.Signals
) -> None:
    queue_url = redis_url.get_secret_value()
    Redis.from_url(queue_url).flushall()
    scene.settings = Settings(redis_url=server.now.url, queue_url=redis_url, call_lease_s=3)
    await scene.reconnect()
    asked = await scene.ask("count_and_wait", path=str(scene.notes))
    server.down()
    worker = scene.start_worker(RUNSTATE_QUEUE_URL=queue_url)
    os.kill(await until(lambda: child_of(worker.pid)), how)
    server.up()
    await scene.reconnect()
    assert (await asked.settled(within_s=30)).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes)) == 1


async def child_of(pid: int) -> int:
    """A process that this one has forked; 0 if it has none."""
    return next(iter(_children(pid)), 0)


def _children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@pytest.mark.parametrize("module", ["workers", "orchestrator.engine"])
async def test_a_process_with_settings_of_another_installation_is_refused(
    scene: Scene, module: str
) -> None:
    process = scene.start_worker(module=module, RUNSTATE_PARTITIONS="8")
    assert process.wait(timeout=10) == os.EX_CONFIG
    assert "The store was laid out with 16 partitions" in scene.log.read_text()


async def said(scene: Scene, event: str) -> bool:
    """Whether a worker has logged it."""
    return event in scene.log.read_text()
