"""Streams of several api processes of the operating system."""

import random
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import httpx2
import pytest
from pydantic import SecretStr

from api.streaming.places import Place
from orchestrator.settings import Settings
from tests.engine.rig import EngineRoom
from tests.http.streams.conftest import Player, answers
from tests.http.streams.frames import Frame, joined, last, read_all, reading
from tests.http.streams.scenarios import LOOK, MEASURE
from tests.http.test_process import address_of, start

WORDS = "one two three four five six seven eight"
SLOWLY = {"text": WORDS, "chunk_delay_s": 0.2}

Api = tuple[Process, httpx2.AsyncClient]


@pytest.fixture
async def both(redis_url: SecretStr) -> AsyncIterator[tuple[Api, Api]]:
    """Two processes of the api, on the store of the test."""
    processes = [await start(redis_url=redis_url.get_secret_value(), port="0") for _ in range(2)]
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=await address_of(process), timeout=30)
            )
            for process in processes
        ]
        yield (processes[0], clients[0]), (processes[1], clients[1])
    for process in processes:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"turn_lease_s": 1.0})


async def path_of_new_run(player: Player, *turns: dict[str, object]) -> str:
    body = player.body(*turns, stream=False)
    run = (await player.http.post("/v1/threads/runs", json=body)).json()
    return f"/v1/threads/{run['thread_id']}/runs/{run['id']}"


async def test_a_reader_that_comes_again_after_every_event_has_each_of_them_once(
    player: Player, both: tuple[Api, Api], engines: EngineRoom
) -> None:
    """While the run is live, at random processes, with a loss of its engine on the way."""
    path = await path_of_new_run(player, {"tool_calls": [LOOK, MEASURE]}, SLOWLY)
    had: list[Frame] = []
    is_lost = False
    while not had or had[-1].event != "thread.run.completed":
        _, http = random.choice(both)  # noqa: S311
        after = {"Last-Event-ID": had[-1].id or ""} if had else {}
        async with reading(http, "GET", f"{path}/events", headers=after) as frames:
            had.append(await anext(frames))
        if had[-1].event == "thread.run.requires_action":
            outputs = answers(had[-1], look_up="known", measure="long")
            await http.post(f"{path}/submit_tool_outputs", json={"tool_outputs": outputs})
        elif not is_lost and joined(had).startswith("one"):
            is_lost = True
            await engines.kill("engine-1")
            engines.start("engine-2")
    cut = last(had, "thread.message.incomplete")
    assert joined(had[had.index(cut) :]) == WORDS
    for _, http in both:
        assert had == await read_all(http, "GET", f"{path}/events")
    places = [Place.read(frame.id or "") for frame in had]
    assert places == sorted(set(places))


async def test_a_reader_whose_api_is_killed_goes_on_at_another_one(
    player: Player, both: tuple[Api, Api]
) -> None:
    path = await path_of_new_run(player, SLOWLY)
    (doomed, its_http), (_, http) = both
    had: list[Frame] = []
    with pytest.raises(httpx2.TransportError):  # noqa: PT012 - while it reads
        async with reading(its_http, "GET", f"{path}/events") as frames:
            async for frame in frames:
                had.append(frame)
                if joined(had).startswith("one") and doomed.returncode is None:
                    doomed.kill()
                    await doomed.wait()
    after = {"Last-Event-ID": had[-1].id or ""}
    rest = await read_all(http, "GET", f"{path}/events", headers=after)
    assert joined([*had, *rest]) == WORDS
    assert [*had, *rest] == await read_all(http, "GET", f"{path}/events")
    assert rest[-1].event == "thread.run.completed"
