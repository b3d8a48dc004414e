"""Workers that come and go: at any moment, in place, and in the middle of a pop."""

import shutil
import signal
import subprocess

import pytest

from orchestrator.records import CallState
from tests.waiting import until
from tests.workers.hosts import Hosts
from tests.workers.scene import TOOLBOX, Scene, noted
from tests.workers.test_loss import settled_by_timers

BOTH_KINDS = pytest.mark.parametrize(
    ("queue", "name"), [("tools", "count_and_wait"), ("tools-io", "count_and_wait_inline")]
)
IN_A_CONTAINER = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
"""What a container does to a worker: at each start it has the same process id, on the same host."""


def has_containers() -> bool:
    """Whether this test may make process namespaces."""
    has_command = shutil.which(IN_A_CONTAINER[0])
    return (
        bool(has_command)
        and not subprocess.run(
            [*IN_A_CONTAINER, "true"], check=False, capture_output=True
        ).returncode
    )


@BOTH_KINDS
async def test_workers_that_are_told_to_stop_at_any_moment_lose_and_repeat_nothing(
    scene: Scene, queue: str, name: str
) -> None:
    arguments = {"path": str(scene.notes), "seconds": 0.1}
    asked = [one for _ in range(4) for one in await scene.ask_many([(name, arguments)] * 10)]
    for done in range(5, 40, 11):
        worker = scene.start_worker(queue, RUNSTATE_INLINE_CONCURRENCY="2")
        await noted(scene.notes, done)
        worker.terminate()
        assert worker.wait(timeout=20) == 0
    scene.start_worker(queue)
    calls = [await settled_by_timers(one) for one in asked]
    assert {(call.state, call.attempts) for call in calls} == {(CallState.SUCCEEDED, 1)}
    assert len(await noted(scene.notes, 40)) == 40


@BOTH_KINDS
async def test_signals_that_insist_end_a_worker_with_its_call(
    scene: Scene, queue: str, name: str
) -> None:
    worker = scene.start_worker(queue)
    asked = await scene.ask(name, path=str(scene.notes), seconds=60)
    await noted(scene.notes)

    worker.terminate()

    async def insist() -> bool:
        is_done = (await asked.now()).is_settled
        if not is_done:
            worker.terminate()
        return is_done

    await until(insist, within_s=10)
    assert (await asked.now()).state is CallState.UNKNOWN
    assert worker.wait(timeout=10) == 0
    assert await scene.store.present("worker") == ()


async def test_a_call_that_a_frozen_worker_has_taken_off_the_queue_is_done_by_another_once(
    scene: Scene,
) -> None:
    frozen = scene.start_worker()
    await (await scene.ask("add", a=1, b=2)).settled()
    popped = "rq:queue:tools:intermediate"

    async def waits_for_a_job() -> bool:
        clients = scene.queue.client_list()
        return not scene.queue.llen(popped) and any("b" in client["flags"] for client in clients)

    await until(waits_for_a_job)
    frozen.send_signal(signal.SIGSTOP)
    asked = await scene.ask("count_and_wait", path=str(scene.notes))
    assert scene.queue.lrange(popped, 0, -1) == [asked.id.encode()]
    other = scene.start_worker()
    assert (await settled_by_timers(asked)).state is CallState.SUCCEEDED
    other.terminate()
    assert other.wait(timeout=10) == 0
    frozen.send_signal(signal.SIGCONT)
    assert await (await scene.ask("add", a=1, b=2)).output() == 3
    assert len(await noted(scene.notes)) == 1
    assert frozen.poll() is None


@pytest.mark.skipif(not has_containers(), reason="no process namespaces here")
async def test_a_container_that_is_restarted_in_place_three_times_takes_no_call_for_its_own(
    scene: Scene,
) -> None:
    url = scene.settings.redis_url.get_secret_value()
    given = {"RUNSTATE_REDIS_URL": url, "RUNSTATE_CALL_LEASE_S": "3"}
    module = ["workers", "--tools", str(TOOLBOX), "--queue", "tools"]
    notes = scene.folder / "notes-of-the-container"  # its process ids mean nothing out here
    once = [await scene.ask("count_and_wait", path=str(notes), seconds=60) for _ in range(3)]
    for start in range(1, 4):
        container = Hosts(scene).popen(module, given, on=IN_A_CONTAINER)
        await noted(notes, start)
        container.kill()
        container.wait()
    for one in once:
        assert (await settled_by_timers(one)).state is CallState.UNKNOWN
    workers = [(await one.now()).worker or "" for one in once]
    assert len(set(workers)) == 3
    assert len({worker.rpartition("-")[0] for worker in workers}) == 1
    assert len(await noted(notes)) == 3
