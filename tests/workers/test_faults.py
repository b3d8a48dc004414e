"""Faults made for real: workers that freeze for longer than their leases, or are gone."""

import signal
import time

from orchestrator.records import CallState
from tests.waiting import until
from tests.workers.scene import Scene, noted
from tests.workers.test_loss import settled_by_timers


async def test_a_worker_that_froze_for_longer_than_its_lease_is_late(scene: Scene) -> None:
    worker = scene.start_worker("tools-io")
    asked = await scene.ask("count_and_wait_inline", path=str(scene.notes), seconds=2)
    await noted(scene.notes)
    worker.send_signal(signal.SIGSTOP)
    call = await settled_by_timers(asked)
    assert call.state is CallState.UNKNOWN
    worker.send_signal(signal.SIGCONT)

    async def sound() -> bool:
        return (await (await scene.ask("wait", seconds=0)).settled()).state is CallState.SUCCEEDED

    assert await until(sound)
    assert (await asked.now()).but(late=()) == call.but(late=())
    assert len(await noted(scene.notes)) == 1


async def test_the_answer_of_a_frozen_worker_is_kept_and_not_applied(scene: Scene) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=5)
    (child,) = await noted(scene.notes)
    worker.send_signal(signal.SIGSTOP)
    call = await settled_by_timers(asked)
    assert call.state is CallState.UNKNOWN

    async def late() -> bool:
        return bool((await asked.now()).late)

    await until(late)
    worker.send_signal(signal.SIGCONT)
    assert (await asked.now()).but(late=()) == call
    assert await (await scene.ask("add", a=1, b=2)).output() == 3
    assert await noted(scene.notes) == [child]


async def test_the_loss_of_a_worker_is_noticed_when_the_lease_is_over(scene: Scene) -> None:
    worker = scene.start_worker("tools-io")
    asked = await scene.ask("count_and_wait_inline", path=str(scene.notes), seconds=60)
    await noted(scene.notes)
    worker.kill()
    killed_at = time.monotonic()
    assert (await settled_by_timers(asked)).state is CallState.UNKNOWN
    assert time.monotonic() - killed_at < scene.settings.call_lease_s + 1.5
