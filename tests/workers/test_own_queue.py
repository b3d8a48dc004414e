"""Queues whose workers have different tools, and lose them."""

import os
import signal

import pytest
from pydantic import SecretStr

from orchestrator.housekeeping import timers
from orchestrator.records import CallState
from orchestrator.settings import Settings
from tests.waiting import until
from tests.workers.scene import Scene, gone, noted


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url, call_lease_s=1)


async def test_a_call_whose_worker_died_goes_back_to_its_own_queue_whoever_sees_to_it(
    scene: Scene,
) -> None:
    """What sees to it: timers, and the maintenance of a worker of another queue."""
    worker = scene.start_worker("gpu")
    fast = scene.start_worker("tools", module="tests.workers.hasty")
    asked = await scene.ask("count_on_gpu", path=str(scene.notes), seconds=0.2)
    (child,) = await noted(scene.notes)
    for pid in (worker.pid, child):
        os.kill(pid, signal.SIGKILL)
    await gone(child, within_s=5)

    async def is_queued_again() -> bool:
        await timers.fire_due(scene.store)
        await scene.deliver()
        return asked.id.encode() in queued(scene)

    await until(is_queued_again)
    assert await (await scene.ask("add", a=1, b=2)).output() == 3
    assert queued(scene) == [asked.id.encode()]
    other = scene.start_worker("gpu")
    call = await asked.settled()
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 2)
    assert f"-{other.pid}-" in (call.worker or "")
    assert len(await noted(scene.notes, 2)) == 2
    assert fast.poll() is None


def queued(scene: Scene) -> list[bytes | str]:
    """The jobs that wait for a worker with the tool."""
    return scene.queue.lrange("rq:queue:gpu", 0, -1)
