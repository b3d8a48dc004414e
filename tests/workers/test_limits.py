"""What a worker does not let its tools take: memory, and time after they were stopped."""

from collections.abc import Sequence

import pytest

from orchestrator.commands import Cancel
from orchestrator.records import CallState, ToolCall
from orchestrator.shell import change_run
from tests.waiting import until
from tests.workers.hosts import Hosts
from tests.workers.scene import TOOLBOX, Scene, gone, noted


async def test_a_tool_that_takes_too_much_memory_is_answered_for_and_the_worker_lives(
    scene: Scene,
) -> None:
    worker = scene.start_worker(RUNSTATE_WORKER_MEMORY_MB="64")
    asked = await scene.ask("take_memory", megabytes=200)
    assert (await asked.output())["error"]["type"] == "out_of_memory"
    sound = await scene.ask("take_memory", megabytes=20)
    assert await sound.output() == 20 * 2**20
    assert worker.poll() is None


@pytest.mark.parametrize(("queue", "name"), [("tools", "add"), ("tools-io", "wait")])
async def test_a_worker_ends_after_as_many_calls_as_it_may_have(
    scene: Scene, queue: str, name: str
) -> None:
    arguments = {"a": 1, "b": 2} if name == "add" else {"seconds": 0.5}
    asked = await scene.ask_many([(name, arguments)] * 3)
    first = scene.start_worker(queue, RUNSTATE_WORKER_MAX_CALLS="2")
    assert first.wait(timeout=20) == 0
    states = [(await one.now()).state for one in asked]
    assert sorted(states) == [CallState.DISPATCHED, *[CallState.SUCCEEDED] * 2]
    scene.start_worker(queue, RUNSTATE_WORKER_MAX_CALLS="2")
    for one in asked:
        assert (await one.settled()).state is CallState.SUCCEEDED


async def test_a_worker_has_no_more_async_calls_at_once_than_its_command_says(scene: Scene) -> None:
    url = scene.settings.redis_url.get_secret_value()
    command = ["cli.main", "worker", "--tools", str(TOOLBOX), "--concurrency", "2"]
    host = Hosts(scene).popen(command, {"RUNSTATE_REDIS_URL": url})
    asked = await scene.ask_many([("wait", {"seconds": 0.5})] * 5)
    calls = [await one.settled(within_s=30) for one in asked]
    host.terminate()
    assert host.wait(timeout=20) == 0
    assert most_at_once(calls) == 2


def most_at_once(calls: Sequence[ToolCall]) -> int:
    """How many of these calls were under way when there were most of them."""
    spans = [(call.started_ms or 0, call.finished_ms or 0) for call in calls]
    return max(sum(begun <= at < ended for begun, ended in spans) for at, _ in spans)


@pytest.mark.parametrize("is_told", [True, False], ids=["told to stop", "the stop is lost"])
async def test_a_tool_that_is_stopped_may_clean_up(scene: Scene, is_told: bool) -> None:
    scene.start_worker()
    asked = await scene.ask("clean_up", path=str(scene.notes), seconds=0.3)
    (child,) = await noted(scene.notes)
    await change_run(scene.store, asked.ref, Cancel(5_000))
    if is_told:
        await scene.deliver()
    await gone(child, within_s=5)
    assert cleanup(scene) == ["began", "ended"]
    assert (await asked.now()).state is CallState.CANCELLED
    assert await (await scene.ask("add", a=1, b=2)).output() == 3


async def test_a_tool_that_cleans_up_for_too_long_is_killed(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("clean_up", path=str(scene.notes), seconds=60)
    (child,) = await noted(scene.notes)
    await change_run(scene.store, asked.ref, Cancel(5_000))
    await scene.deliver()

    async def has_begun() -> bool:
        return cleanup(scene) == ["began"]

    await until(has_begun)
    await gone(child, within_s=3)
    assert cleanup(scene) == ["began"]


def cleanup(scene: Scene) -> list[str]:
    """How far the clean-up is."""
    path = scene.notes.with_name(f"{scene.notes.name}-cleanup")
    return path.read_text().split() if path.exists() else []
