"""A worker that is stopped just after a pop, while others look after what it has popped."""

import asyncio
import signal
import subprocess
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

import pytest

from orchestrator.housekeeping import timers
from orchestrator.records import CallState
from orchestrator.settings import Settings
from orchestrator.storage import embedded
from orchestrator.storage.valkey import open_store
from tests.clocks import LIBRARY, Clock
from tests.waiting import until
from tests.workers.scene import Asked, Scene, gone, noted
from tests.workers.slow_line import SlowLine, slow_line
from tests.workers.test_loss import bring_look_forward

ONCE = pytest.mark.parametrize(
    ("queue", "name"), [("tools", "count_and_wait"), ("tools-io", "count_and_wait_inline")]
)
HARMLESS = pytest.mark.parametrize(
    ("queue", "name"), [("tools", "count_harmlessly"), ("tools-io", "count_harmlessly_inline")]
)
"""The same tools, on both kinds of worker, which may be executed once, and more often."""


class Lines:
    """Workers of one queue, each at the end of a slow line of its own."""

    def __init__(self, scene: Scene, port: int, exits: AsyncExitStack, queue: str) -> None:
        self._scene = scene
        self._port = port
        self._exits = exits
        self.queue = queue

    async def start(self, clock: Clock | None = None) -> "tuple[SlowLine, subprocess.Popen[bytes]]":
        """A worker that does RQ's maintenance every second, and its line."""
        line = await self._exits.enter_async_context(slow_line(self._port))
        url = self._scene.settings.redis_url.get_secret_value()
        queue_url = url.replace(f":{self._port}/", f":{line.port}/")
        return line, self._scene.start_worker(
            self.queue, module="tests.workers.hasty", clock=clock, RUNSTATE_QUEUE_URL=queue_url
        )

    async def start_and_signal(
        self,
        number: signal.Signals,
        name: str,
        moment: Literal["on_pop", "on_begin"] = "on_pop",
    ) -> "tuple[Asked, subprocess.Popen[bytes]]":
        """A worker that gets this signal before it hears how the server took what it did about this
        call.
        """
        line, worker = await self.start()
        is_signalled = asyncio.Event()

        def act() -> None:
            if not is_signalled.is_set():
                worker.send_signal(number)
                is_signalled.set()

        setattr(line, moment, act)
        asked = await self._scene.ask(name, path=str(self._scene.notes))
        async with asyncio.timeout(30):
            await is_signalled.wait()
        return asked, worker


@pytest.fixture
async def scene(tmp_path: Path) -> AsyncIterator[Scene]:
    server = embedded.start(tmp_path / "data", port=embedded.find_free_port())
    settings = Settings(redis_url=server.url, call_lease_s=2)
    scene = Scene(await open_store(settings), settings, tmp_path)
    yield scene
    await scene.close()
    await scene.store.close()
    server.stop()


@pytest.fixture
async def lines(scene: Scene, queue: str) -> AsyncIterator[Lines]:
    port = urlsplit(scene.settings.redis_url.get_secret_value()).port or 0
    async with AsyncExitStack() as exits:
        yield Lines(scene, port, exits, queue)


async def is_failed_by_rq(scene: Scene, lines: Lines, asked: Asked) -> "subprocess.Popen[bytes]":
    """Another worker, which has seen in its maintenance that the job is stuck for 70 seconds."""
    first_seen = f"rq:queue:{lines.queue}:intermediate:first_seen:{asked.id}"
    scene.queue.set(first_seen, time.time() - 70)
    _, other = await lines.start()

    async def is_failed() -> bool:
        return scene.queue.hget(f"rq:job:{asked.id}", "status") == b"failed"

    await until(is_failed, within_s=30)
    view = await scene.store.view(asked.ref)
    assert (view.run.status, view.calls[0].state) == ("requires_action", CallState.DISPATCHED)
    return other


async def goes_on(
    scene: Scene,
    paused: "subprocess.Popen[bytes]",
    other: "subprocess.Popen[bytes]",
    asked: Asked,
    name: str,
) -> None:
    """The paused worker is the only one from now on, and does not do again what is done."""
    call = await asked.settled(within_s=40)
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 1)
    assert f"-{other.pid}-" in (call.worker or "")
    other.terminate()
    await gone(other.pid, within_s=20)
    paused.send_signal(signal.SIGCONT)
    its_next = await scene.ask(name, path=str(scene.notes))
    assert (await its_next.settled()).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes, 2)) == 2
    assert await asked.now() == call
    assert paused.poll() is None


@ONCE
async def test_a_call_of_a_paused_worker_is_done_once_by_another(
    scene: Scene, lines: Lines, name: str
) -> None:
    asked, paused = await lines.start_and_signal(signal.SIGSTOP, name)
    _, other = await lines.start()
    await goes_on(scene, paused, other, asked, name)


@pytest.mark.slow
@ONCE
async def test_a_worker_that_is_paused_for_longer_than_rq_is_patient_fails_no_run(
    scene: Scene, lines: Lines, name: str
) -> None:
    asked, paused = await lines.start_and_signal(signal.SIGSTOP, name)
    goes_on_at = time.monotonic() + 70
    _, other = await lines.start()

    async def is_time() -> bool:
        return time.monotonic() >= goes_on_at

    await until(is_time, within_s=80)
    await goes_on(scene, paused, other, asked, name)


@HARMLESS
async def test_a_job_that_rq_fails_meanwhile_is_sent_again_and_done_once(
    scene: Scene, lines: Lines, name: str
) -> None:
    asked, paused = await lines.start_and_signal(signal.SIGSTOP, name)
    other = await is_failed_by_rq(scene, lines, asked)
    bring_look_forward(scene)
    assert await timers.fire_due(scene.store) == 1
    await scene.deliver()
    await goes_on(scene, paused, other, asked, name)


@ONCE
async def test_a_job_that_rq_has_failed_is_done_by_its_worker_all_the_same(
    scene: Scene, lines: Lines, name: str
) -> None:
    asked, paused = await lines.start_and_signal(signal.SIGSTOP, name)
    await is_failed_by_rq(scene, lines, asked)
    paused.send_signal(signal.SIGCONT)
    call = await asked.settled()
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 1)
    assert f"-{paused.pid}-" in (call.worker or "")
    assert len(await noted(scene.notes)) == 1


@pytest.mark.skipif(LIBRARY is None, reason="needs libfaketime")
@pytest.mark.parametrize("queue", ["tools"])
async def test_a_job_whose_worker_died_is_put_back_also_by_one_whose_clock_is_late(
    scene: Scene, lines: Lines, tmp_path: Path
) -> None:
    asked, _ = await lines.start_and_signal(signal.SIGKILL, "count_and_wait", "on_begin")
    await lines.start(Clock(tmp_path, "late", -300))
    assert (await asked.settled(within_s=40)).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes)) == 1
