"""The end of a run reaches the workers."""

import pytest

from orchestrator.commands import Cancel
from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.errors import NotFound
from orchestrator.housekeeping import fire_due
from orchestrator.housekeeping.timers import fire
from orchestrator.records import CallState
from orchestrator.shell import change_run, delete_thread, view_run
from orchestrator.states import RunStatus
from orchestrator.store import DueTimer
from tests.waiting import until
from tests.workers.scene import Asked, Scene, gone, noted


async def cancel(asked: Asked) -> None:
    await change_run(asked.scene.store, asked.ref, Cancel(5_000))


async def test_a_cancel_stops_the_running_tool_and_takes_the_others_off_the_queue(
    scene: Scene,
) -> None:
    arguments = {"path": str(scene.notes), "seconds": 60}
    worker = scene.start_worker()
    running, *_ = await scene.ask_many([("count_and_wait", arguments)] * 3)
    (child,) = await noted(scene.notes)
    await cancel(running)
    await scene.deliver()

    await gone(child, within_s=1)
    assert scene.queue.llen("rq:queue:tools") == 0
    sound = await scene.ask("add", a=1, b=2)
    await sound.settled()
    assert (await running.now()).state is CallState.CANCELLED
    assert len(await noted(scene.notes)) == 1
    assert worker.poll() is None


async def test_a_cancel_reaches_the_tool_even_if_the_stop_is_lost(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=60)
    (child,) = await noted(scene.notes)
    await cancel(asked)

    await gone(child, within_s=5)


async def test_a_job_of_a_run_that_is_over_does_nothing(scene: Scene) -> None:
    asked = await scene.ask("count_and_wait", path=str(scene.notes))
    await cancel(asked)
    scene.start_worker()
    await (await scene.ask("add", a=1, b=2)).settled()
    assert not scene.notes.exists()


async def test_the_deadline_of_a_run_that_has_ended_changes_nothing(scene: Scene) -> None:
    over = await scene.ask("elsewhere", 500)
    await cancel(over)
    events = await scene.store.read_events(over.ref)
    ends_ms = (await scene.store.view(over.ref)).run.deadline_ms

    async def is_late() -> bool:
        return await scene.store.now_ms() > ends_ms

    await until(is_late)
    await fire(scene.store, DueTimer(over.ref, TimerKey(TimerKind.DEADLINE), ends_ms))
    assert await scene.store.read_events(over.ref) == events


async def test_calls_that_are_cancelled_at_any_moment_start_no_more_and_leave_nothing(
    scene: Scene,
) -> None:
    for _ in range(2):
        scene.start_worker()
    paths = [scene.folder / f"notes-{number}" for number in range(20)]
    asked = [await scene.ask("count_and_wait", path=str(path), seconds=0.02) for path in paths]
    await noted(paths[2])
    for one in reversed(asked):
        await cancel(one)
    await scene.deliver()
    for one in asked[:4]:
        await one.settled()
    await (await scene.ask("add", a=1, b=2)).settled()
    for one, path in zip(asked, paths, strict=True):
        call = await one.now()
        assert call.state in {CallState.SUCCEEDED, CallState.CANCELLED}
        assert path.exists() <= (call.started_ms is not None)
    await until(lambda: has_an_end(scene))


async def has_an_end(scene: Scene) -> bool:
    """Whether the queue server will have forgotten every job by itself."""
    queue = scene.queue
    lasting = [key for key in queue.scan_iter("rq:job:*") if queue.ttl(key) == -1]
    return not (lasting or queue.llen("rq:queue:tools:intermediate") or queue.zcard("rq:wip:tools"))


@pytest.mark.parametrize("zone", ["UTC", "Asia/Shanghai", "America/St_Johns"])
async def test_a_call_ends_with_its_run(scene: Scene, zone: str) -> None:
    scene.start_worker(TZ=zone)
    await (await scene.ask("add", a=1, b=2)).settled()  # it is there before the time runs
    asked = await scene.ask("count_and_wait", 2_000, path=str(scene.notes), seconds=60)
    (child,) = await noted(scene.notes)

    await gone(child, within_s=5)
    view = await view_run(scene.store, asked.ref)
    assert view.run.status is RunStatus.EXPIRED
    assert (await asked.now()).state is CallState.CANCELLED


async def test_a_deleted_thread_ends_its_tools(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=60)
    (child,) = await noted(scene.notes)
    await delete_thread(scene.store, asked.ref.thread_id)

    await gone(child, within_s=5)


async def test_a_deleted_thread_takes_its_calls_off_the_queue_after_it_has_gone(
    scene: Scene,
) -> None:
    scene.start_worker()
    arguments = {"path": str(scene.notes), "seconds": 60}
    running, *_ = await scene.ask_many([("count_and_wait", arguments)] * 3)
    (child,) = await noted(scene.notes)
    await delete_thread(scene.store, running.ref.thread_id)
    await fire_due(scene.store)
    await scene.deliver()

    await gone(child, within_s=1)
    assert scene.queue.llen("rq:queue:tools") == 0
    sound = await scene.ask("add", a=1, b=2)
    await sound.settled()
    assert len(await noted(scene.notes)) == 1
    with pytest.raises(NotFound):
        await scene.store.find_run(running.ref.run_id)
