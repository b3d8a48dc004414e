"""Streams that are joined after a run was created, and gone on with where another one broke off."""

import asyncio
from collections.abc import AsyncIterator

import httpx2
import pytest
from fastapi import FastAPI
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from orchestrator.settings import Settings
from orchestrator.storage.pipelining import MAX_UNDER_WAY
from orchestrator.storage.valkey import ValkeyStore, open_store
from orchestrator.store import RunRef, Store
from tests.engine.rig import EngineRoom
from tests.http.conftest import serve
from tests.http.driver import Asked, Driver
from tests.http.streams.conftest import Player, answers, path_of
from tests.http.streams.frames import names, read_all, reading
from tests.http.streams.scenarios import LOOK
from tests.waiting import until

SUBSCRIPTIONS = 2
"""The api's, and the engine's."""


@pytest.fixture
async def other(settings: Settings, player: Player) -> AsyncIterator[httpx2.AsyncClient]:
    """A second api process, as far as one process can have two."""
    serving = serve(settings, lambda: open_store(settings))
    async with serving as address, httpx2.AsyncClient(base_url=address) as http:
        yield http


async def test_a_run_that_was_polled_can_be_read_from_its_start_by_any_process(
    player: Player, other: httpx2.AsyncClient
) -> None:
    told = await player.plays({"text": "one two three"})
    path = path_of(told[-1])
    again = await read_all(other, "GET", f"{path}/events")
    assert [(frame.event, frame.data) for frame in again] == [
        (frame.event, frame.data) for frame in told[1:]
    ]
    assert all(frame.id is None for frame in told)
    middle = len(again) // 2
    rest = await read_all(other, "GET", f"{path}/events?after={again[middle].id}")
    assert rest == again[middle + 1 :]
    assert await read_all(other, "GET", f"{path}/events?after={again[-1].id}") == []


async def test_whoever_else_reads_hears_what_the_stream_of_the_outputs_tells(
    player: Player,
) -> None:
    asked = (await player.plays({"tool_calls": [LOOK]}, {"text": "So.", "chunk_delay_s": 0.02}))[-1]
    path = f"{path_of(asked)}/events"
    async with reading(player.http, "GET", path) as frames:
        told = [await anext(frames)]
        rest = await player.submits(asked, look_up="known")
        told += [frame async for frame in frames]
    assert [frame.data for frame in told[-len(rest) - 1 : -1]] == [frame.data for frame in rest]
    assert [frame.event for frame in told].count("thread.run.created") == 1
    assert "thread.run.created" not in [frame.event for frame in rest]


async def test_a_reader_stays_while_the_run_waits_for_its_client(
    player_alone: Player, driver: Driver, run: Run
) -> None:
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}"
    async with reading(player_alone.http, "GET", f"{path}/events") as frames:
        await driver.asks(run, Asked("look_up"))
        told = []
        async for frame in frames:
            told.append(frame)
            if frame.event == "thread.run.requires_action":
                outputs = answers(frame, look_up="known")
                body = {"tool_outputs": outputs}
                await player_alone.http.post(f"{path}/submit_tool_outputs", json=body)
                await driver.answers(run, "So it is.")
    assert names(told)[-2:] == ["run.completed", "done"]
    assert "run.requires_action" in names(told)


@pytest.mark.parametrize("after", ["9999999999999-0", "9999999999999-0.1", "1-5"])
async def test_an_id_that_nobody_gave_leads_to_the_end_all_the_same(
    player: Player, after: str
) -> None:
    told = await player.plays({"text": "Done."})
    rest = await read_all(player.http, "GET", f"{path_of(told[-1])}/events?after={after}")
    assert len(rest) == (0 if after.startswith("9") else len(told) - 1)


async def test_a_live_run_leads_a_reader_with_a_made_up_id_to_its_end(
    player_alone: Player, driver: Driver, run: Run
) -> None:
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    reader = asyncio.create_task(
        read_all(player_alone.http, "GET", f"{path}?after=9999999999999-0")
    )
    await driver.answers(run, "So it is.")
    assert await reader == []


@pytest.mark.parametrize("after", ["-1", "$", "1-", "1-2-3", "x", "1" * 30, "٣-1"])
async def test_an_id_that_is_none_is_refused(player_alone: Player, run: Run, after: str) -> None:
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    refused = await player_alone.http.get(path, params={"after": after})
    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "after"
    if after.isascii():
        refused = await player_alone.http.get(path, headers={"Last-Event-ID": after})
        assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Last-Event-ID")


@pytest.mark.parametrize("state", ["queued", "in_progress", "waiting"])
async def test_deleting_a_thread_ends_its_streams(
    player_alone: Player, client: AsyncOpenAI, driver: Driver, run: Run, state: str
) -> None:
    if state == "waiting":
        await driver.asks(run, Asked("look_up"))
    elif state == "in_progress":
        await driver.starts(run)
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    async with reading(player_alone.http, "GET", path) as frames:
        await anext(frames)
        await client.beta.threads.delete(run.thread_id)
        async with asyncio.timeout(5):
            told = [frame async for frame in frames]
    assert [frame.event for frame in told[-2:]] == ["thread.run.cancelled", "done"]


async def test_a_stream_ends_at_once_when_its_log_was_deleted_before_it_was_read(
    player_alone: Player, client: AsyncOpenAI, store: ValkeyStore, run: Run
) -> None:
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    async with reading(player_alone.http, "GET", path) as frames:
        await anext(frames)
        await store.pipeliner.call("CLIENT", "KILL", "TYPE", "pubsub")
        await client.beta.threads.delete(run.thread_id)
        await store.clear_thread(run.thread_id)
        async with asyncio.timeout(5):  # a third of what passes before it is looked at again
            told = [frame async for frame in frames]
    assert [frame.event for frame in told[-2:]] == ["error", "done"]
    assert told[-2].data["message"] == f"No thread found with id '{run.thread_id}'."


async def test_an_unknown_run_has_no_events(player_alone: Player, run: Run, thread: Thread) -> None:
    path = f"/v1/threads/{thread.id}/runs/run_none/events"
    refused = await player_alone.http.get(path)
    assert refused.status_code == 404
    assert refused.json()["error"]["message"] == "No run found with id 'run_none'."


async def test_a_log_that_is_not_kept_any_more_says_so(player: Player, store: ValkeyStore) -> None:
    told = await player.plays({"text": "Done."})
    run = told[-1].data
    log = store.keys.home(run["thread_id"]).run_log(run["id"])
    await store.pipeliner.call("PEXPIRE", log, 0)
    gone = await player.http.get(f"{path_of(told[-1])}/events")
    assert gone.status_code == 410
    assert gone.json()["error"]["code"] == "event_log_expired"


async def test_a_deadline_that_no_engine_applies_ends_the_stream(
    player_alone: Player, driver: Driver, assistant: Assistant, thread: Thread
) -> None:
    ref = await driver.creates(thread.id, assistant.id, ttl_ms=300)
    told = await read_all(
        player_alone.http, "GET", f"/v1/threads/{thread.id}/runs/{ref.run_id}/events"
    )
    assert names(told) == ["run.created", "run.queued", "run.expired"]


async def test_a_reader_that_goes_away_is_forgotten_and_the_run_goes_on(
    player: Player, app: FastAPI, store: Store, engines: EngineRoom
) -> None:
    body = player.body({"text": "one two three", "chunk_delay_s": 0.1})
    async with reading(player.http, "POST", "/v1/threads/runs", json=body) as frames:
        await anext(frames)
        run = (await anext(frames)).data
        assert app.state.readers.count() == 1
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
        staying = asyncio.create_task(read_all(player.http, "GET", f"{path}/events"))
        await until(lambda: _true(app.state.readers.count() == 2))
    await until(lambda: _true(app.state.readers.count() == 1), within_s=3)
    assert (await staying)[-1].event == "thread.run.completed"
    assert app.state.readers.count() == 0
    assert app.state.doorbell._waiters == {}


async def test_five_hundred_streams_leave_nothing_behind(
    player: Player, app: FastAPI, store: ValkeyStore
) -> None:
    """A tenth of them is dropped early, and the store drops the subscription in between."""

    async def read(path: str, is_dropped: bool) -> bool:
        async with reading(player.http, "GET", path) as frames:
            async for frame in frames:
                if is_dropped or frame.event == "thread.run.completed":
                    return True
        return False

    async def round_of_readers(number: int) -> list[bool]:
        body = player.body({"text": "one two three", "chunk_delay_s": 0.01}, stream=False)
        run = (await player.http.post("/v1/threads/runs", json=body)).json()
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/events"
        readers = [asyncio.create_task(read(path, n == 0)) for n in range(10)]
        if number % 10 == 5:
            await store.pipeliner.call("CLIENT", "KILL", "TYPE", "pubsub")
        return await asyncio.gather(*readers)

    await round_of_readers(0)
    tasks = len(asyncio.all_tasks())
    for number in range(50):
        assert all(await round_of_readers(number))
    await until(lambda: _true(app.state.readers.count() == 0))
    await until(lambda: _true(len(asyncio.all_tasks()) <= tasks))
    assert app.state.doorbell._waiters == {}
    connections = (await store.pipeliner.call("CLIENT", "LIST")).splitlines()
    assert len(connections) <= MAX_UNDER_WAY + SUBSCRIPTIONS


async def test_many_readers_share_one_reading_of_the_log(
    player_alone: Player, app: FastAPI, driver: Driver, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads = 0
    read_events = ValkeyStore.read_events

    async def counted(*arguments: object) -> object:
        nonlocal reads
        reads += 1
        return await read_events(*arguments)  # type: ignore[arg-type]

    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    many = [asyncio.create_task(read_all(player_alone.http, "GET", path)) for _ in range(40)]
    await until(lambda: _true(app.state.readers.count() == 40))
    monkeypatch.setattr(ValkeyStore, "read_events", counted)
    await driver.answers(run, "So it is.")
    told = await asyncio.gather(*many)
    assert told[0][-1].event == "thread.run.completed"
    assert all(one == told[0] for one in told)
    assert reads <= 4  # one for each of the two commits, and those that bells without news cost


async def test_a_reader_far_behind_reads_again_what_is_not_kept(
    client: AsyncOpenAI, player: Player, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("api.streaming.run_log.KEPT_BYTES", 2000)
    monkeypatch.setattr("api.streaming.run_log.MAX_EVENTS", 3)
    turns = {"text": "one two three four five six", "chunk_delay_s": 0.03}
    told = await player.plays(turns)
    path = path_of(told[-1])
    assert await read_all(player.http, "GET", f"{path}/events") != []
    again = await read_all(player.http, "GET", f"{path}/events")
    assert [frame.data for frame in again] == [frame.data for frame in told[1:]]


async def _true(value: bool) -> bool:
    return value


async def test_the_log_of_a_run_has_an_end_to_its_time(player: Player, store: ValkeyStore) -> None:
    told = await player.plays({"text": "Done."})
    run = told[-1].data
    ref = RunRef(run["thread_id"], run["id"])
    left_ms = await store.pipeliner.call("PTTL", store.keys.home(ref.thread_id).run_log(ref.run_id))
    assert 0 < left_ms <= 86_400_000
