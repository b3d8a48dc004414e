"""What goes wrong around a stream: readers, servers, the store, and characters on the way."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
from fastapi import FastAPI
from openai import APIError, AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from orchestrator.settings import Settings
from orchestrator.storage import embedded
from orchestrator.storage.valkey import ValkeyStore, open_store
from tests.http.conformance.sdks import Sdk
from tests.http.conftest import serve
from tests.http.driver import Asked, Driver
from tests.http.streams.conftest import Player, path_of
from tests.http.streams.frames import (
    COMMENT,
    Frame,
    joined,
    last,
    read_all,
    read_frame,
    reading,
)
from tests.http.streams.scenarios import AWKWARD, SCENARIOS
from tests.http.streams.tours import HELPERS, gathered, tour
from tests.waiting import until

ROUNDS = 14
"""As many as tell more than the system holds on its way to a reader: three runs of 256 kB each."""


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"keep_alive_s": 0.15})


async def test_every_character_arrives_and_is_stored_as_it_is(player: Player) -> None:
    call = {"name": "look_up", "arguments": {"word": AWKWARD}}
    told = await player.plays({"text": AWKWARD, "tool_calls": [call]})
    message = last(told, "thread.message.completed").data
    assert joined(told) == AWKWARD == message["content"][0]["text"]["value"]
    asked = told[-1].data["required_action"]["submit_tool_outputs"]["tool_calls"][0]["function"]
    assert json.loads(asked["arguments"]) == {"word": AWKWARD}
    rest = await player.submits(told[-1], look_up=AWKWARD)
    assert rest[0].data["step_details"]["tool_calls"][0]["function"]["output"] == AWKWARD


async def test_silence_is_broken_by_comments_that_end_no_event(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    raw = b""
    async with http.stream("GET", path) as response:
        async for piece in response.aiter_raw():
            raw += piece
            if piece == COMMENT and raw.count(COMMENT) == 3:
                await driver.answers(run, "So it is.")
    assert COMMENT * 3 in raw
    assert b"\n\n\n" not in raw
    assert COMMENT + b"\n" not in raw
    frames = [read_frame(block) for block in raw.removesuffix(b"\n\n").split(b"\n\n")]
    assert [frame.event for frame in frames[-2:]] == ["thread.run.completed", "done"]


@pytest.mark.parametrize("leave", ["close", "abort", "half-close"])
async def test_any_way_of_leaving_frees_the_reader_and_lets_the_run_go_on(
    player: Player, app: FastAPI, address: str, leave: str
) -> None:
    url = httpx2.URL(address)
    body = json.dumps(player.body({"text": "one two", "delay_s": 0.3})).encode()
    reader, writer = await asyncio.open_connection(url.host, url.port)
    writer.write(
        b"POST /v1/threads/runs HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    )
    while not (line := await reader.readline()).startswith(b'data: {"id":"run_'):
        assert line
    match leave:
        case "close":
            writer.close()
        case "abort":
            writer.transport.abort()
        case _:
            writer.write_eof()
    await until(lambda: is_idle(app), within_s=5)
    path = path_of(Frame("", json.loads(line.removeprefix(b"data: "))))
    await until(lambda: is_completed(player, path))
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def test_a_cut_at_any_event_lets_the_run_go_on_to_its_end(
    player: Player, app: FastAPI
) -> None:
    turn = {"text": "one two three", "chunk_delay_s": 0.05}
    told = await player.plays(turn)

    async def cut(after: int) -> str:
        body = player.body(turn)
        async with reading(player.http, "POST", "/v1/threads/runs", json=body) as frames:
            had = [await anext(frames) for _ in range(after)]
        return path_of(had[1])

    paths = await asyncio.gather(*(cut(after) for after in range(2, len(told) + 1)))
    for path in paths:
        await until(lambda path=path: is_completed(player, path))  # type: ignore[misc]
        again = await read_all(player.http, "GET", f"{path}/events")
        assert joined(again) == joined(told)
    await until(lambda: is_idle(app), within_s=5)


async def test_what_cannot_be_read_is_told_and_ends_the_stream(
    player_alone: Player, driver: Driver, run: Run, store: ValkeyStore
) -> None:
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}/events"
    async with reading(player_alone.http, "GET", path) as frames:
        told = [await anext(frames)]
        log = store.keys.home(run.thread_id).run_log(run.id)
        await store.pipeliner.call("XADD", log, "*", "e", "no event")
        await driver.starts(run)
        told += [frame async for frame in frames]
    assert [frame.event for frame in told[-2:]] == ["error", "done"]
    error = told[-2].data
    assert (error["code"], error["type"]) == (None, "server_error")
    assert "no event" not in error["message"]


async def is_idle(app: FastAPI) -> bool:
    return bool(app.state.readers.count() == 0)


async def is_completed(player: Player, path: str) -> bool:
    return bool((await player.get(path))["status"] == "completed")


async def test_a_reader_that_does_not_read_holds_up_nobody_and_loses_nothing(  # noqa: PLR0917
    client: AsyncOpenAI, http: httpx2.AsyncClient, app: FastAPI, address: str, driver: Driver,
    thread: Thread, assistant: Assistant, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr("api.streaming.run_log.KEPT_BYTES", 20_000)
    run = await client.beta.threads.runs.create(
        thread.id, assistant_id=assistant.id, instructions="x" * 256_000
    )
    path = f"/v1/threads/{thread.id}/runs/{run.id}/events"
    small_buffer = [(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)]
    transport = httpx2.AsyncHTTPTransport(socket_options=small_buffer)
    async with (
        httpx2.AsyncClient(base_url=address, transport=transport, timeout=30) as narrow,
        reading(narrow, "GET", path) as slow,
    ):
        told = [await anext(slow)]
        for _ in range(ROUNDS):
            (call_id,) = await driver.asks(run, Asked("look_up"), workers=("look_up",))
            await driver.works(run, call_id, "known")
        await driver.answers(run, "So it is.")
        quick = await read_all(http, "GET", path)
        assert app.state.readers.count() == 1
        told += [frame async for frame in slow]
    assert told[:-1] == quick
    assert quick[-1].event == "thread.run.completed"


async def test_a_server_that_stops_ends_its_streams_and_the_reader_goes_on_elsewhere(
    player: Player, settings: Settings
) -> None:
    stopping, had = serve(settings, lambda: open_store(settings)), []
    body = player.body({"text": "one two three", "chunk_delay_s": 0.4}, stream=False)
    run = (await player.http.post("/v1/threads/runs", json=body)).json()
    path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}/events"
    url = await stopping.__aenter__()
    async with httpx2.AsyncClient(base_url=url) as http, reading(http, "GET", path) as frames:
        had.append(await anext(frames))
        stopped = asyncio.create_task(stopping.__aexit__(None, None, None))
        had += [frame async for frame in frames]
    async with asyncio.timeout(3):
        await stopped
    error, done = had[-2:]
    assert done == Frame("done", "[DONE]")
    assert (error.event, error.data["code"]) == ("error", "server_stopping")
    assert error.data["error"] == {k: v for k, v in error.data.items() if k != "error"}
    after = {"Last-Event-ID": had[-3].id}
    async with reading(player.http, "GET", path, headers=after) as frames:
        rest = [frame async for frame in frames]
    assert rest[-2].event == "thread.run.completed"
    ids = [frame.id for frame in [*had[:-2], *rest[:-1]]]
    assert len(ids) == len(set(ids))


@pytest.fixture
async def doomed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Any]:
    """A store of one test, to be taken away, and the address of its api."""
    monkeypatch.setattr("api.streaming.run_log.OUTAGE_S", 0.3)
    server = embedded.start(tmp_path)
    settings = Settings(redis_url=server.url, keep_alive_s=0.15)
    async with serve(settings, lambda: open_store(settings)) as address:
        yield server, address
    server.stop()


async def test_a_store_that_goes_away_is_told_in_a_form_that_every_sdk_raises(doomed: Any) -> None:
    server, address = doomed
    async with AsyncOpenAI(base_url=f"{address}/v1", api_key="any", max_retries=0) as client:
        assistant: Assistant = await client.beta.assistants.create(model="scripted/echo")
        stream = await client.beta.threads.create_and_run(assistant_id=assistant.id, stream=True)
        assert (await anext(aiter(stream))).event == "thread.created"
        server.stop()
        with pytest.raises(APIError) as told:
            async for _ in stream:
                pass
    assert told.value.code == "store_unavailable"


@pytest.mark.parametrize("helper", HELPERS, ids=str)
async def test_the_stream_helper_of_every_sdk_is_told_that_the_store_is_gone(
    helper: Sdk, sdk_cache: Path, doomed: Any
) -> None:
    server, address = doomed
    scenario = SCENARIOS[0].wanted(address) | {"tells_of": "thread.run.queued"}
    async with tour(helper, sdk_cache, [scenario]) as process:
        assert process.stderr is not None
        assert await process.stderr.readline() == b"so far\n"
        server.stop()
        (result,) = await gathered(process)
    assert result["error"] == "store_unavailable", result
    if helper.name == "azure-ai-agents":  # the others leave off at the error
        assert result["events"][-2:] == ["error", "done"]
