"""What becomes of a call when processes die in the middle of it."""

import os
import signal
from contextlib import suppress
from typing import Any

from orchestrator.commands import ClaimCall
from orchestrator.housekeeping import timers
from orchestrator.records import CallState, ToolCall
from orchestrator.shell import change_run
from orchestrator.store import DueTimer, Store
from tests.waiting import until
from tests.workers.scene import Asked, Scene, noted


async def settled_by_timers(asked: Asked) -> ToolCall:
    """The call, once it has an output, with the timers fired that an engine would fire."""

    async def look() -> ToolCall | None:
        await timers.fire_due(asked.scene.store)
        await asked.scene.deliver()
        call = await asked.now()
        return call if call.is_settled else None

    return await until(look, within_s=20)


async def test_a_killed_execution_of_a_once_tool_is_not_repeated(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=60)
    (child,) = await noted(scene.notes)
    os.kill(child, signal.SIGKILL)
    call = await asked.settled(within_s=5)
    assert call.state is CallState.UNKNOWN
    assert call.error == "The tool ended without an answer: killed by SIGKILL."
    assert await noted(scene.notes) == [child]


async def test_a_child_that_is_killed_after_its_answer_changes_nothing(scene: Scene) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=0.5)
    (child,) = await noted(scene.notes)
    call = await asked.settled()
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    assert await (await scene.ask("add", a=1, b=2)).output() == 3
    assert await asked.now() == call
    assert (call.state, worker.poll()) == (CallState.SUCCEEDED, None)


async def test_a_tool_that_always_kills_its_process_is_tried_as_often_as_allowed(
    scene: Scene,
) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_vanish", path=str(scene.notes))
    call = await settled_by_timers(asked)
    assert (call.state, call.attempts) == (CallState.FAILED, 2)
    assert len(await noted(scene.notes)) == 2
    assert worker.poll() is None


async def test_the_answer_of_an_orphan_counts_while_nobody_took_over(scene: Scene) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=0.5)
    await noted(scene.notes)
    worker.kill()
    assert (await asked.settled()).state is CallState.SUCCEEDED


async def test_a_once_call_whose_worker_and_child_are_gone_becomes_unknown(scene: Scene) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=60)
    (child,) = await noted(scene.notes)
    worker.kill()
    os.kill(child, signal.SIGKILL)
    call = await settled_by_timers(asked)
    assert call.state is CallState.UNKNOWN
    assert len(await noted(scene.notes)) == 1


async def test_a_harmless_call_whose_worker_and_child_are_gone_goes_to_another_worker(
    scene: Scene,
) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_harmlessly", path=str(scene.notes), seconds=1)
    (child,) = await noted(scene.notes)
    worker.kill()
    os.kill(child, signal.SIGKILL)
    scene.start_worker()
    call = await settled_by_timers(asked)
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 2)
    assert len(await noted(scene.notes, 2)) == 2


async def test_the_late_answer_of_an_orphan_is_kept_and_not_applied(scene: Scene) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=5)
    await noted(scene.notes)
    worker.kill()
    call = await settled_by_timers(asked)
    assert call.state is CallState.UNKNOWN

    async def late() -> bool:
        return bool((await asked.now()).late)

    assert await until(late)
    assert (await asked.now()).state is CallState.UNKNOWN


async def test_a_job_whose_worker_died_right_after_the_pop_is_put_back(scene: Scene) -> None:
    asked = await scene.ask("count_and_wait", path=str(scene.notes))
    assert scene.queue.lmove("rq:queue:tools", "rq:queue:tools:intermediate")
    scene.start_worker()
    assert (await asked.settled()).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes)) == 1


async def test_a_job_whose_worker_died_between_its_begin_and_the_claim_is_put_back(
    scene: Scene,
) -> None:
    asked = await scene.ask("count_harmlessly", path=str(scene.notes))
    job, queue = f"rq:job:{asked.id}", scene.queue
    assert queue.lmove("rq:queue:tools", "rq:queue:tools:intermediate")
    assert queue.hset(job, mapping={"status": "started", "worker_name": "dead"}) == 0
    assert queue.zadd("rq:wip:tools", {f"{asked.id}:execution": queue.time()[0] + 45}) == 1
    scene.start_worker()
    assert (await settled_by_timers(asked)).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes)) == 1


class SlowKeeper:
    """A store whose user is slow to act on what he takes: too late, and the lease is renewed."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def take_due(self, limit: int, hold_ms: int) -> tuple[DueTimer, ...]:
        """Timers, when they are due again for all others."""
        due = await self._store.take_due(limit, hold_ms)
        for timer in due:

            async def is_over(until_ms: int = timer.until_ms) -> bool:
                return await self._store.now_ms() > until_ms

            await until(is_over)
            assert await self._store.renew(timer.ref, timer.key, 60_000)
        return due


async def test_a_call_whose_worker_is_back_before_anybody_acted_is_not_lost(scene: Scene) -> None:
    asked = await scene.ask("count_and_wait", path=str(scene.notes))
    await change_run(scene.store, asked.ref, ClaimCall(asked.id, "worker", lease_ms=1))
    keeper: Any = SlowKeeper(scene.store)

    async def has_taken() -> bool:
        return await timers.fire_due(keeper) == 1

    await until(has_taken)
    assert (await asked.now()).state is CallState.STARTED


async def test_however_many_calls_of_a_run_a_silent_worker_had_all_are_recovered_at_once(
    scene: Scene,
) -> None:
    many = await scene.ask_many([("add", {"a": 1, "b": 2})] * 250)
    for asked in many:
        await change_run(scene.store, asked.ref, ClaimCall(asked.id, "silent", lease_ms=1))

    async def nobody_has_any() -> bool:
        await timers.fire_due(scene.store)
        return all(call.state is not CallState.STARTED for call in await scene.calls(many[0].ref))

    await until(nobody_has_any)


async def test_a_call_that_the_queue_server_has_forgotten_is_sent_again(scene: Scene) -> None:
    asked = await scene.ask("count_harmlessly", path=str(scene.notes))
    assert scene.queue.delete("rq:queue:tools", f"rq:job:{asked.id}") == 2
    scene.start_worker()
    bring_look_forward(scene)
    assert (await settled_by_timers(asked)).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes)) == 1


async def test_a_call_that_waits_is_looked_after_again_and_again(scene: Scene) -> None:
    await scene.ask("elsewhere")
    for _ in range(2):
        bring_look_forward(scene)
        assert await timers.fire_due(scene.store) == 1
    await scene.deliver()


def bring_look_forward(scene: Scene) -> None:
    """The timer of the only call that waits is due now."""
    key: Any = next(scene.queue.scan_iter("rs:*:timers"))
    members: list[Any] = scene.queue.zrange(key, 0, -1)
    (wait,) = (member for member in members if member.startswith(b"call_wait"))
    scene.queue.zadd(key, {wait: 1})


async def test_a_call_that_no_worker_serves_is_answered_when_the_patience_is_over(
    scene: Scene,
) -> None:
    asked = await scene.ask("elsewhere")
    for patience_ms, is_over in ((60_000, False), (0, True)):
        bring_look_forward(scene)
        assert await timers.fire_due(scene.store, patience_ms) == 1
        assert (await asked.now()).is_settled is is_over
    assert (await asked.output())["error"]["type"] == "no_worker"
    assert scene.queue.llen("rq:queue:others") == 1
    await scene.deliver()
    assert scene.queue.llen("rq:queue:others") == 0


async def test_a_call_delivered_twice_is_done_once(scene: Scene) -> None:
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=0.3)
    scene.queue.rpush("rq:queue:tools", asked.id, asked.id)
    scene.start_worker()
    scene.start_worker()
    await asked.settled()

    async def is_empty() -> bool:
        left = scene.queue.llen("rq:queue:tools"), scene.queue.llen("rq:queue:tools:intermediate")
        return left == (0, 0)

    assert await until(is_empty)
    assert len(await noted(scene.notes)) == 1


async def test_sigterm_lets_a_worker_finish_its_call(scene: Scene) -> None:
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=1)
    await noted(scene.notes)
    worker.terminate()
    assert (await asked.settled()).state is CallState.SUCCEEDED
    assert worker.wait(timeout=10) == 0
    assert await scene.store.present("worker") == ()


async def test_sigterm_ends_an_idle_worker_at_once(scene: Scene) -> None:
    worker = scene.start_worker()
    await (await scene.ask("add", a=1, b=2)).settled()
    worker.terminate()
    assert worker.wait(timeout=4) == 0
