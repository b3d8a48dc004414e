"""Clients that hurry, hang up and come back at the worst moment."""

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from openai import APIConnectionError, AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from tests.engine.rig import EngineRoom
from tests.http.driver import Asked, Driver
from tests.http.proxy import lossy_proxy
from tests.waiting import until

HANG_UPS: Final = 200
WITHIN_S: Final = 0.015
"""Most requests take less, so hanging up in this time meets every moment of them."""


@pytest.fixture
async def echo(client: AsyncOpenAI) -> Assistant:
    function: Any = {"type": "function", "function": {"name": "look_up"}}
    return await client.beta.assistants.create(model="scripted/echo", tools=[function])


async def say(client: AsyncOpenAI, thread: Thread, *turns: Mapping[str, Any]) -> None:
    """A message that is the script of the next run."""
    script = json.dumps({"turns": turns})
    await client.beta.threads.messages.create(thread.id, role="user", content=script)


@pytest.mark.parametrize("is_playing", [True, False])
@pytest.mark.usefixtures("engines")
async def test_a_thread_is_free_soon_after_a_cancel_however_often_it_is_asked_for(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread, is_playing: bool
) -> None:
    runs = client.beta.threads.runs
    await say(client, thread, {"text": "one two", "chunk_delay_s": 30 if is_playing else 0})
    run = await runs.create(thread.id, assistant_id=assistant.id)

    async def speaks() -> bool:
        return bool((await client.beta.threads.messages.list(thread.id, run_id=run.id)).data)

    if is_playing:
        await until(speaks)
    with suppress(BadRequestError):  # it may have ended
        await runs.cancel(run.id, thread_id=thread.id)
    began = time.perf_counter()
    while True:
        assert time.perf_counter() - began < 15
        try:
            await say(client, thread, {"text": "Done."})
            again = await runs.create(thread.id, assistant_id=assistant.id)
            break
        except BadRequestError as refusal:
            assert f"a run {run.id} is active" in str(refusal)  # noqa: PT017
    ended = await runs.retrieve(run.id, thread_id=thread.id)
    assert ended.status in ({"cancelled"} if is_playing else {"cancelled", "completed"})
    said = (await client.beta.threads.messages.list(thread.id, run_id=run.id)).data
    assert (await runs.poll(again.id, thread_id=thread.id)).status == "completed"
    assert (await client.beta.threads.messages.list(thread.id, run_id=run.id)).data == said


@pytest.mark.usefixtures("engines")
async def test_no_run_is_refused_once_the_end_of_the_last_one_was_seen(
    client: AsyncOpenAI, echo: Assistant, thread: Thread, address: str
) -> None:
    """One create in twenty is not answered; its run is found in the list."""
    threads, made = client.beta.threads, []
    async with (
        lossy_proxy(urlsplit(address).port or 0) as (network, port),
        AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any", max_retries=0) as hasty,
    ):
        for number in range(100):
            await threads.messages.create(thread.id, role="user", content=str(number))
            network.lose(number % 20 == 7)
            try:
                run = await hasty.beta.threads.runs.create(thread.id, assistant_id=echo.id)
            except APIConnectionError:
                run = (await threads.runs.list(thread.id, limit=1)).data[0]
            made.append(run.id)
            assert (await threads.runs.poll(run.id, thread_id=thread.id)).status == "completed"
    listed = [run.id async for run in threads.runs.list(thread.id, order="asc", limit=100)]
    assert listed == made


class HangUps:
    """Requests whose client is gone before it has read the answer."""

    def __init__(self, client: AsyncOpenAI, driver: Driver, assistant: Assistant) -> None:
        self.threads = client.beta.threads
        self._driver = driver
        self._assistant_id = assistant.id

    async def start(self) -> Run:
        messages: Any = [{"role": "user", "content": "Hi"}]
        return await self.threads.create_and_run(
            assistant_id=self._assistant_id, thread={"messages": messages}
        )

    async def delete(self, dice: random.Random) -> str:
        """The thread is whole or gone."""
        run = await self.start()
        await _hang_up(self.threads.delete(run.thread_id), dice)
        with suppress(NotFoundError):
            assert (await self._read(run)).status == "queued"
        return run.thread_id

    async def cancel(self, dice: random.Random) -> str:
        """The run is cancelled or waits for its turn."""
        run = await self.start()
        await _hang_up(self.threads.runs.cancel(run.id, thread_id=run.thread_id), dice)
        assert (await self._read(run)).status in {"queued", "cancelled"}
        return run.thread_id

    async def submit(self, dice: random.Random) -> str:
        """The output is there and the run goes on, or it is not and the run waits for it."""
        run = await self.start()
        (call_id,) = await self._driver.asks(run, Asked("look_up"))
        await _hang_up(self.submission(run, call_id), dice)
        found = await self._read(run)
        steps = await self.threads.runs.steps.list(run.id, thread_id=run.thread_id)
        details: Any = steps.data[0].step_details
        outputs = [call.function.output for call in details.tool_calls]
        assert found.status in {"queued", "requires_action"}
        if found.status == "queued":
            assert outputs == ["known"]
        return run.thread_id

    async def create(self, dice: random.Random) -> str:
        """There is a run with its message, or neither."""
        thread = await self.threads.create()
        message: Any = {"role": "user", "content": "Hi"}
        creation = self.threads.runs.create(
            thread.id, assistant_id=self._assistant_id, additional_messages=[message]
        )
        await _hang_up(creation, dice)
        messages = (await self.threads.messages.list(thread.id)).data
        runs = (await self.threads.runs.list(thread.id)).data
        assert len(messages) <= len(runs) <= 1
        return thread.id

    async def submission(self, run: Run, call_id: str) -> Run:
        outputs: Any = [{"tool_call_id": call_id, "output": "known"}]
        return await self.threads.runs.submit_tool_outputs(
            run.id, thread_id=run.thread_id, tool_outputs=outputs
        )

    async def settle(self, thread_id: str) -> None:
        """Whatever was done of it, the thread comes to rest and can be used."""
        try:
            runs = (await self.threads.runs.list(thread_id)).data
        except NotFoundError:
            return
        for made in runs:
            run = await self.threads.runs.poll(made.id, thread_id=thread_id)
            if run.required_action is not None:
                (call,) = run.required_action.submit_tool_outputs.tool_calls
                await self.submission(run, call.id)
                run = await self.threads.runs.poll(run.id, thread_id=thread_id)
            assert run.status in {"completed", "cancelled"}
        await self.threads.messages.create(thread_id, role="user", content="And then?")

    async def _read(self, run: Run) -> Run:
        return await self.threads.runs.retrieve(run.id, thread_id=run.thread_id)


async def _hang_up(request: Awaitable[object], dice: random.Random) -> None:
    asking = asyncio.ensure_future(request)
    await asyncio.wait({asking}, timeout=dice.uniform(0, WITHIN_S))
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)


async def test_a_client_that_hangs_up_leaves_nothing_half_done(
    client: AsyncOpenAI, driver: Driver, echo: Assistant, idle_engines: EngineRoom
) -> None:
    dice = random.Random(92)  # noqa: S311
    clients = HangUps(client, driver, echo)
    ways: tuple[Callable[[random.Random], Awaitable[str]], ...] = (
        clients.delete, clients.cancel, clients.submit, clients.create,
    )  # fmt: skip
    thread_ids = [await ways[number % len(ways)](dice) for number in range(HANG_UPS)]
    idle_engines.start("engine-1")
    for thread_id in thread_ids:
        await clients.settle(thread_id)


@pytest.mark.parametrize("left_in", ["queued", "in_progress", "requires_action", "cancelling"])
async def test_a_client_that_comes_back_finds_what_was_left_and_can_end_it(
    client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread, left_in: str
) -> None:
    runs = client.beta.threads.runs
    ended = await runs.create(thread.id, assistant_id=assistant.id)
    await driver.answers(ended, "Done")
    left = await runs.create(thread.id, assistant_id=assistant.id)
    if left_in == "requires_action":
        await driver.asks(left, Asked("look_up"))
    elif left_in != "queued":
        await driver.starts(left)
    if left_in == "cancelling":
        await driver.cancels(left)

    (newest,) = (await runs.list(thread.id, limit=1)).data
    assert (newest.id, newest.status) == (left.id, left_in)
    statuses = [run.status for run in (await runs.list(thread.id)).data]
    assert statuses == [left_in, "completed"]
    refused = [ended] if left_in != "cancelling" else [ended, newest]
    for run in refused:
        with pytest.raises(BadRequestError, match="Cannot cancel run with status"):
            await runs.cancel(run.id, thread_id=thread.id)
    if left_in != "cancelling":
        cancelled = await runs.cancel(newest.id, thread_id=thread.id)
        assert cancelled.status == ("cancelling" if left_in == "in_progress" else "cancelled")
