"""Hosts whose wall clocks are wrong, or are set in the middle of a run; then the store's own."""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from orchestrator.decisions import Event, EventType
from orchestrator.records import CallState
from orchestrator.settings import Settings
from orchestrator.storage.embedded import find_binary
from orchestrator.storage.valkey import open_store
from orchestrator.store import RunRef
from tests.clocks import LIBRARY, Clock
from tests.store.servers import serve
from tests.waiting import until
from tests.workers.hosts import KEY, Hosts
from tests.workers.scene import TOOLBOX, Scene, noted
from tests.workers.test_loss import settled_by_timers

pytestmark = pytest.mark.skipif(LIBRARY is None, reason="needs libfaketime")

BOTH_KINDS = pytest.mark.parametrize(
    ("queue", "name"), [("tools", "count_and_wait"), ("tools-io", "count_and_wait_inline")]
)
STEPS = pytest.mark.parametrize("step_s", [-300, 300])
LONG_MS: Final = 600_000
NEVER_SO_LATE_MS: Final = 1_800_000
"""No two zones are nearer to each other: who mistakes one for another is off by more."""
HOUR_TWICE: Final = datetime(2026, 11, 1, 4, 30, tzinfo=UTC)
"""In St. John's it is two o'clock, and then it is one o'clock again."""
PLANNED: Final = {"deadline_ms", "approve_by_ms"}
"""Times that lie ahead."""


@BOTH_KINDS
@STEPS
async def test_a_clock_that_is_set_in_the_middle_of_a_call_does_not_cost_it(
    scene: Scene, tmp_path: Path, queue: str, name: str, step_s: int
) -> None:
    clock = Clock(tmp_path, "worker")
    worker = scene.start_worker(queue, clock=clock)
    asked = await scene.ask(name, path=str(scene.notes), seconds=4)
    await noted(scene.notes)
    clock.set(step_s)
    call = await settled_by_timers(asked)
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 1)
    assert len(await noted(scene.notes)) == 1
    assert worker.poll() is None


async def test_hosts_that_disagree_about_time_and_zone_and_change_their_minds_play_a_run(
    scene: Scene, tmp_path: Path
) -> None:
    shifts = {"api": -60, "engine": 0, "housekeeper": 300, "worker": 60}
    clocks = {name: Clock(tmp_path, name, ahead_s) for name, ahead_s in shifts.items()}
    from_ms = await scene.store.now_ms()
    short = await scene.ask("elsewhere", 8_000)  # while no engine is there to take it over
    hosts = Hosts(scene)
    await hosts.start_api(**clocks["api"].environment, TZ="Asia/Shanghai")
    hosts.start_engine(**clocks["engine"].environment, TZ="America/St_Johns")
    hosts.start_engine(**clocks["housekeeper"].environment)
    worker = hosts.given_to_workers(KEY) | clocks["worker"].environment
    hosts.popen(["workers", "--tools", str(TOOLBOX), "--queue", "tools"], worker)
    await until(lambda: scene.store.present("worker"), within_s=30)
    ref = await create_run(hosts, "count_and_wait", path=str(scene.notes), seconds=4)
    await noted(scene.notes)
    for clock, ahead_s in zip(clocks.values(), [240, -300, 0, -240], strict=True):
        clock.set(ahead_s)
    events = await all_events(scene, ref, EventType.RUN_COMPLETED)
    told = [at_ms for event in events for at_ms in times_in(event.model_dump(mode="json"))]
    assert from_ms <= min(told) <= max(told) <= await scene.store.now_ms()
    assert are_in_order(events)
    assert events[-1].run is not None
    assert events[-1].run.deadline_ms == events[0].at_ms + LONG_MS
    assert len(await noted(scene.notes)) == 1
    end = (await all_events(scene, short.ref, EventType.RUN_EXPIRED))[-1]
    assert end.run is not None
    assert end.at_ms >= end.run.deadline_ms


async def create_run(hosts: Hosts, name: str, **arguments: Any) -> RunRef:
    """A run that calls this tool and then ends, made through the api."""
    call = {"name": name, "arguments": arguments}
    script = json.dumps({"turns": [{"tool_calls": [call]}, {"text": "Done."}]})
    functions = [{"type": "function", "function": {"name": name}}]
    async with httpx2.AsyncClient(base_url=f"{hosts.url}/v1") as http:
        made = await http.post("/assistants", json={"model": "scripted/inline", "tools": functions})
        thread = {"messages": [{"role": "user", "content": script}]}
        asked = {"assistant_id": made.json()["id"], "thread": thread}
        run = (await http.post("/threads/runs", json=asked)).json()
    return RunRef(run["thread_id"], run["id"])


async def all_events(scene: Scene, ref: RunRef, last: EventType) -> list[Event]:
    """The run's log, once this has been told."""

    async def look() -> list[Event] | None:
        events = [event for _, event in await scene.store.read_events(ref)]
        return events if any(event.type is last for event in events) else None

    return await until(look, within_s=40)


def times_in(document: Any) -> Iterator[int]:
    """All times at which something has happened, wherever they are."""
    if isinstance(document, list):
        for item in document:
            yield from times_in(item)
    elif isinstance(document, dict):
        for key, value in document.items():
            if key.endswith("_ms") and isinstance(value, int) and key not in PLANNED:
                yield value
            yield from times_in(value)


def are_in_order(events: list[Event]) -> bool:
    """Whether the times never go back."""
    times = [event.at_ms for event in events]
    return times == sorted(times)


# -- the store's clock ----------------------------------------------------------------------------


@pytest.fixture
def store_clock(tmp_path: Path) -> Clock:
    """That of the store's host."""
    return Clock(tmp_path, "store")


@pytest.fixture
async def clocked(
    store_clock: Clock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Scene]:
    """A scene whose store goes by a clock of its own."""
    with ExitStack() as exits:
        with monkeypatch.context() as inherited:
            for name, value in store_clock.environment.items():
                inherited.setenv(name, value)
            url = exits.enter_context(serve(find_binary(), tmp_path))
        settings = Settings(redis_url=url, call_lease_s=3)
        scene = Scene(await open_store(settings), settings, tmp_path)
        yield scene
        await scene.close()
        await scene.store.close()


@STEPS
async def test_when_the_clock_of_the_store_is_set_no_time_goes_back_and_nothing_is_done_twice(
    clocked: Scene, store_clock: Clock, step_s: int
) -> None:
    clocked.start_worker()
    arguments = {"path": str(clocked.notes), "seconds": 2}
    asked = await clocked.ask("count_and_wait", LONG_MS, **arguments)
    await noted(clocked.notes)
    before_ms = await clocked.store.now_ms()
    store_clock.set(step_s)

    async def is_set() -> bool:
        return abs(await clocked.store.now_ms() - before_ms) > 200_000

    await until(is_set)
    call = await settled_by_timers(asked)
    # Put forward, it is as if the worker had been silent all the time.
    assert call.state is (CallState.SUCCEEDED if step_s < 0 else CallState.UNKNOWN)
    assert are_in_order([event for _, event in await clocked.store.read_events(asked.ref)])
    assert len(await noted(clocked.notes)) == 1
    again = await clocked.ask("count_and_wait", LONG_MS, path=str(clocked.notes))
    assert (await again.settled()).state is CallState.SUCCEEDED


async def test_when_an_hour_comes_twice_somewhere_no_deadline_moves_and_times_are_whole_seconds(
    clocked: Scene, store_clock: Clock
) -> None:
    goes_back_ms = round(HOUR_TWICE.timestamp() * 1000)
    store_clock.set(goes_back_ms // 1000 - round(time.time()) - 60)
    hosts, clock = Hosts(clocked), store_clock.environment
    await hosts.start_api(**clock, TZ="Asia/Shanghai")
    clocked.start_worker(clock=store_clock, TZ="UTC")
    await until(lambda: clocked.store.present("worker"), within_s=30)
    store_clock.set(goes_back_ms // 1000 - round(time.time()) - 2)
    short = await clocked.ask("elsewhere", 4_000)  # while no engine is there to take it over
    hosts.start_engine(**clock, TZ="America/St_Johns")
    ref = await create_run(hosts, "count_and_wait", path=str(clocked.notes), seconds=1)
    await all_events(clocked, ref, EventType.RUN_COMPLETED)
    end = (await all_events(clocked, short.ref, EventType.RUN_EXPIRED))[-1]
    assert end.run is not None
    assert 0 <= end.at_ms - end.run.deadline_ms < NEVER_SO_LATE_MS
    assert end.run.deadline_ms == end.run.created_ms + 4_000
    run, *others = await shown(hosts, ref)
    assert run["expires_at"] is None
    times = [value for one in (run, *others) for key, value in one.items() if key.endswith("_at")]
    told = [value for value in times if value is not None]
    assert {type(value) for value in told} == {int}
    now_ms = await clocked.store.now_ms()
    assert goes_back_ms // 1000 - 60 <= min(told) <= max(told) <= now_ms // 1000
    assert run["created_at"] <= run["started_at"] <= run["completed_at"]
    assert len(await noted(clocked.notes)) == 1


async def shown(hosts: Hosts, ref: RunRef) -> list[dict[str, Any]]:
    """What the api shows of a run: itself, its thread, its messages and its steps."""
    thread = f"/threads/{ref.thread_id}"
    run = f"{thread}/runs/{ref.run_id}"
    async with httpx2.AsyncClient(base_url=f"{hosts.url}/v1") as http:
        alone = [(await http.get(path)).json() for path in (run, thread)]
        lists = [(await http.get(path)).json() for path in (f"{thread}/messages", f"{run}/steps")]
    return [*alone, *(item for one in lists for item in one["data"])]
