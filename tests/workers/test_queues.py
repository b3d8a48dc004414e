"""What operators see of queues and workers."""

import re
import subprocess
import sys

from orchestrator.dispatch.queues import QueueReport, queue_lengths, queue_report
from tests.waiting import until
from tests.workers.scene import Scene, noted


def report(scene: Scene, name: str) -> QueueReport:
    return next(queue for queue in queue_report(scene.queue) if queue.name == name)


def rq_info(scene: Scene) -> str:
    """What RQ's own command says."""
    url = scene.settings.effective_queue_url.get_secret_value()
    command = [sys.executable, "-W", "ignore", "-m", "rq.cli", "info", "--raw", "--url", url]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


async def test_nothing_is_reported_of_nothing(scene: Scene) -> None:
    assert queue_report(scene.queue) == ()
    assert queue_lengths(scene.queue) == ()


async def test_the_report_shows_what_waits_what_is_done_and_by_whom(scene: Scene) -> None:
    worker = scene.start_worker()
    arguments = {"path": str(scene.notes), "seconds": 60}
    running, *_ = await scene.ask_many([("count_and_wait", arguments)] * 3)
    await scene.ask("elsewhere")
    await noted(scene.notes)
    tools = report(scene, "tools")
    assert (tools.depth, tools.started) == (2, 1)
    assert tools.oldest_age_s is not None
    assert 0 <= tools.oldest_age_s < 30
    (busy,) = tools.workers
    assert (busy.state, busy.call_id) == ("busy", running.id)
    assert busy.busy_s is not None
    assert f"-{worker.pid}-" in busy.name
    others = report(scene, "others")
    assert (others.depth, others.started, others.workers) == (1, 0, ())
    lengths = queue_lengths(scene.queue)
    assert [(queue.name, queue.depth) for queue in lengths] == [("others", 1), ("tools", 2)]
    assert all(0 <= queue.oldest_age_s < 30 for queue in lengths)


async def test_the_report_agrees_with_rq_info(scene: Scene) -> None:
    scene.start_worker()
    arguments = {"path": str(scene.notes), "seconds": 60}
    await scene.ask_many([("count_and_wait", arguments)] * 3)
    await noted(scene.notes)
    said = rq_info(scene)
    tools = report(scene, "tools")
    assert re.search(r"queue tools 2, 1 executing", said)
    assert (tools.depth, tools.started) == (2, 1)
    (busy,) = tools.workers
    assert re.search(rf"worker {re.escape(busy.name)} .* {busy.state} tools\.", said)


async def test_a_worker_is_shown_before_its_queue_had_a_job_and_announces_its_tools(
    scene: Scene,
) -> None:
    scene.start_worker("others")

    async def idle() -> bool:
        return any(
            worker.state == "idle" for q in queue_report(scene.queue) for worker in q.workers
        )

    await until(idle)
    assert report(scene, "others").depth == 0
    (presence,) = await scene.store.present("worker")
    assert presence.info["queue"] == "others"
    assert presence.id == report(scene, "others").workers[0].name
    assert set(await scene.store.tools()) == {"elsewhere"}


async def test_looking_leaves_the_client_its_timeouts(scene: Scene) -> None:
    scene.start_worker()
    client = scene.queue

    async def seen() -> bool:
        return any(queue.workers for queue in queue_report(client))

    await until(seen)
    assert client.connection_pool.connection_kwargs["socket_timeout"] == 5
