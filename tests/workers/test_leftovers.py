"""What is left on the queue server when all calls are over: nothing that stays."""

from typing import Any, Final

from rq.registry import FailedJobRegistry, FinishedJobRegistry

from orchestrator.commands import Cancel
from orchestrator.dispatch.job_format import FAILURE_TTL_S
from orchestrator.shell import change_run
from tests.waiting import until
from tests.workers.scene import Scene, noted
from tests.workers.test_loss import settled_by_timers

ENDS: Final[list[tuple[str, dict[str, Any]]]] = [
    ("add", {"a": 1, "b": 2}),
    ("fail", {"message": "no"}),
    ("oversleep", {}),
    ("vanish", {"code": 3}),
    ("crash", {}),
]
"""Calls that succeed, fail, take too long, and kill their processes."""

BOOKS: Final = {"rq:queues", "rq:workers", "rq:workers:tools"}
REGISTRIES: Final = {"rq:finished:tools", "rq:failed:tools"}


async def test_whatever_became_of_its_calls_the_queue_server_forgets_them(scene: Scene) -> None:
    scene.start_worker()
    for name, arguments in ENDS:
        await settled_by_timers(await scene.ask(name, **arguments))
    running = await scene.ask("count_and_wait", path=str(scene.notes), seconds=60)
    waiting = await scene.ask("add", a=1, b=2)
    await noted(scene.notes)
    for one in (waiting, running):
        await change_run(scene.store, one.ref, Cancel(watchdog_ms=5_000))
        await scene.deliver()

    async def all_is_over() -> bool:
        return lasting(scene) == BOOKS | REGISTRIES

    await until(all_is_over)
    in_time = int(await scene.store.now_ms() / 1000) + FAILURE_TTL_S + 1
    for registry in (FinishedJobRegistry, FailedJobRegistry):
        registry("tools", connection=scene.queue).cleanup(in_time)
    assert lasting(scene) == BOOKS


def lasting(scene: Scene) -> set[str]:
    """The keys of RQ that do not expire."""
    queue = scene.queue
    return {key.decode() for key in queue.scan_iter("rq:*") if queue.ttl(key) == -1}
