"""A tool with ``max_concurrency`` is executed so many times at once, whoever dies."""

import os
from pathlib import Path

import pytest

from orchestrator.housekeeping import timers
from orchestrator.records import CallState
from tests.waiting import until
from tests.workers.scene import Asked, Scene


def under_way(path: Path) -> tuple[list[int], int]:
    """The executions that have begun and not ended, and the most there have been at once."""
    running: list[int] = []
    most = 0
    for line in path.read_text().split() if path.exists() else ():
        if line[0] == "+":
            running.append(int(line[1:]))
        else:
            running.remove(int(line[1:]))
        most = max(most, len(running))
    return running, most


async def all_settled(*asked: Asked) -> list[CallState]:
    """The states of these calls once all have outputs; fires the timers that an engine would."""
    scene = asked[0].scene

    async def look() -> list[CallState] | None:
        await timers.fire_due(scene.store)
        await scene.deliver()
        calls = [await one.now() for one in asked]
        return [call.state for call in calls] if all(x.is_settled for x in calls) else None

    return await until(look, within_s=30)


@pytest.mark.parametrize(
    ("queue", "name"), [("tools", "hold_a_slot"), ("tools-io", "hold_a_slot_inline")]
)
async def test_only_so_many_run_at_once_on_all_hosts_and_all_of_them_run_at_last(
    scene: Scene, queue: str, name: str
) -> None:
    for _ in range(4 if queue == "tools" else 2):
        scene.start_worker(queue)
    path = scene.folder / "slots"
    asked = await scene.ask_many([(name, {"path": str(path), "seconds": 0.5})] * 6)
    assert set(await all_settled(*asked)) == {CallState.SUCCEEDED}
    assert {(await one.now()).attempts for one in asked} == {1}
    assert under_way(path) == ([], 2)


async def test_the_slots_of_killed_workers_come_back_and_the_limit_holds(scene: Scene) -> None:
    workers = [scene.start_worker() for _ in range(3)]
    path = scene.folder / "slots"
    asked = await scene.ask_many([("hold_a_slot", {"path": str(path), "seconds": 1})] * 5)

    async def two_run() -> bool:
        await timers.fire_due(scene.store)
        await scene.deliver()
        return len(under_way(path)[0]) == 2

    await until(two_run)
    for worker in workers:
        worker.kill()
        worker.wait()

    async def are_gone() -> bool:
        return not any(is_alive(pid) for pid in under_way(path)[0])

    await until(are_gone, within_s=2)
    path.unlink()
    for _ in range(3):
        scene.start_worker()
    assert set(await all_settled(*asked)) == {CallState.SUCCEEDED}
    assert under_way(path) == ([], 2)


async def test_a_worker_that_waits_for_a_turn_does_other_calls(scene: Scene) -> None:
    path = scene.folder / "slots"
    for number in range(2):
        await scene.store.take_slot("hold_a_slot", f"somebody else {number}", 2, 60_000)
    scene.start_worker()
    waiting = await scene.ask("hold_a_slot", path=str(path))
    sound = await scene.ask("add", a=1, b=2)
    assert await sound.output() == 3
    call = await waiting.now()
    assert (call.state, call.attempts) == (CallState.RETRYING, 0)
    assert call.error == "Waits for its turn: hold_a_slot may run 2 times at once."
    await scene.store.free_slot("hold_a_slot", "somebody else 0")
    assert await all_settled(waiting) == [CallState.SUCCEEDED]


def is_alive(pid: int) -> bool:
    """Whether the process runs."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
