"""Calls whose run has expired while nobody took them."""

from orchestrator.records import CallState
from orchestrator.shell import view_run
from orchestrator.states import RunStatus
from orchestrator.store import served_queues
from tests.waiting import until
from tests.workers.scene import Scene, noted


async def test_a_call_that_expired_in_its_queue_is_not_executed_by_a_worker_that_comes_later(
    scene: Scene,
) -> None:
    late = await scene.ask("count_and_wait", 1500, path=str(scene.notes))
    scene.start_worker(queue="others")

    async def others_are_served() -> bool:
        return "others" in await served_queues(scene.store)

    async def is_expired() -> bool:
        return (await view_run(scene.store, late.ref)).run.status is RunStatus.EXPIRED

    await until(others_are_served)
    await until(is_expired)
    assert (await late.now()).state is CallState.CANCELLED

    scene.start_worker()
    timely = await scene.ask("count_and_wait", path=str(scene.notes), seconds=0)
    assert (await timely.settled()).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes)) == 1
