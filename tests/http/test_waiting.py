"""Reads that are held until the run's status changes."""

import asyncio
import ssl
import time
from collections.abc import Awaitable

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from api.app import create_app
from api.doorbell import Doorbell
from orchestrator.commands import Stop
from orchestrator.settings import Settings
from orchestrator.states import FINAL, RunStatus
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Store
from tests.http.conftest import serve_app
from tests.http.driver import Asked, Driver
from tests.waiting import until

HELPER = {"X-Stainless-Poll-Helper": "true"}
TLS = ssl.create_default_context()
"""Not needed on loopback, but each client without one makes its own, for 30 ms of CPU."""


@pytest.fixture
def reader(address: str, doorbell: Doorbell, run: Run) -> "Reader":
    return Reader(address, doorbell, run)


class Reader:
    """Reads a run and knows who else is held."""

    def __init__(self, address: str, doorbell: Doorbell, run: Run) -> None:
        self._url = f"{address}/v1/threads/{run.thread_id}/runs/{run.id}"
        self._doorbell = doorbell
        self._run_id = run.id

    async def read(self, headers: dict[str, str]) -> httpx2.Response:
        async with httpx2.AsyncClient(timeout=30, verify=TLS) as http:
            return await http.get(self._url, headers=headers)

    def start(self, headers: dict[str, str]) -> asyncio.Task[httpx2.Response]:
        return asyncio.create_task(self.read(headers))

    async def are_held(self, count: int) -> None:
        async def all_there() -> bool:
            return len(self._doorbell._waiters.get(self._run_id, ())) == count

        await until(all_there)


@pytest.mark.parametrize("headers", [HELPER, {"Prefer": "wait=20"}])
async def test_a_held_read_is_answered_when_the_status_changes(
    reader: Reader, driver: Driver, run: Run, headers: dict[str, str]
) -> None:
    reading = reader.start(headers)
    await reader.are_held(1)
    await driver.starts(run)
    response = await reading
    assert response.json()["status"] == "in_progress"
    assert 1 <= int(response.headers["openai-poll-after-ms"]) <= 10
    await reader.are_held(0)


async def test_a_plain_read_is_answered_at_once(reader: Reader) -> None:
    response = await reader.read({})
    assert response.json()["status"] == "queued"
    assert response.headers["openai-poll-after-ms"] == "100"
    assert "preference-applied" not in response.headers


@pytest.mark.parametrize(
    ("prefer", "applied"),
    [
        ("wait=0", "wait=0"),
        ("respond-async, Wait = 0", "wait=0"),
        ('handling=strict; foo, wait="0"', "wait=0"),
        ("wait=soon", None),
        ("wait=-1", None),
        ("return=minimal", None),
    ],
)
async def test_what_was_applied_of_a_preference_is_said(
    reader: Reader, prefer: str, applied: str | None
) -> None:
    response = await reader.read({"Prefer": prefer})
    assert response.headers.get("preference-applied") == applied


async def test_no_read_is_held_longer_than_the_cap(
    reader: Reader, driver: Driver, run: Run
) -> None:
    reading = reader.start({"Prefer": "wait=3600"})
    await reader.are_held(1)
    await driver.starts(run)
    assert (await reading).headers["preference-applied"] == "wait=25"


async def test_the_time_ends_a_read_without_a_change(reader: Reader) -> None:
    response = await reader.read({"Prefer": "wait=1"})
    assert response.json()["status"] == "queued"


async def test_an_impatient_sdk_is_answered_before_it_gives_up(reader: Reader) -> None:
    response = await reader.read(HELPER | {"X-Stainless-Read-Timeout": "0.4"})
    assert response.json()["status"] == "queued"


async def test_whoever_has_a_turn_to_take_is_not_held(
    reader: Reader, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("look_up"))
    assert (await reader.read(HELPER)).json()["status"] == "requires_action"
    await driver.cancels(run)
    assert (await reader.read(HELPER)).json()["status"] == "cancelled"


async def test_what_changes_no_status_ends_no_wait(
    reader: Reader, driver: Driver, run: Run
) -> None:
    await driver.starts(run)
    reading = reader.start(HELPER)
    await reader.are_held(1)
    await driver.speaks(run)
    await driver.cancels(run)
    assert (await reading).json()["status"] == "cancelling"


async def test_clients_are_held_while_only_workers_are_busy(
    reader: Reader, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    reading = reader.start(HELPER)
    await reader.are_held(1)
    await driver.works(run, call_id, "12 m")
    assert (await reading).json()["status"] == "queued"


async def test_a_read_is_not_held_past_the_deadline_of_the_run(
    client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread
) -> None:
    ref = await driver.creates(thread.id, assistant.id, ttl_ms=300)
    run = await client.beta.threads.runs.poll(ref.run_id, thread_id=thread.id)
    assert run.status == "expired"


async def test_an_unknown_run_is_not_waited_for(http: httpx2.AsyncClient, thread: Thread) -> None:
    response = await http.get(f"/v1/threads/{thread.id}/runs/run_none", headers=HELPER)
    assert response.status_code == 404


async def test_a_client_that_goes_is_waited_for_no_longer(reader: Reader) -> None:
    reading = reader.start(HELPER)
    await reader.are_held(1)
    reading.cancel()
    await reader.are_held(0)


async def test_two_hundred_readers_are_one_subscription(
    reader: Reader, driver: Driver, store: ValkeyStore, run: Run
) -> None:
    reading = [reader.start(HELPER) for _ in range(200)]
    await reader.are_held(200)
    assert await subscriptions(store) == 1
    await driver.starts(run)
    responses = await asyncio.gather(*reading)
    assert {response.json()["status"] for response in responses} == {"in_progress"}
    await reader.are_held(0)


async def test_a_lost_subscription_is_made_again_and_misses_nothing(
    reader: Reader, driver: Driver, store: ValkeyStore, run: Run
) -> None:
    reading = reader.start(HELPER)
    await reader.are_held(1)
    await store.pipeliner.call("CLIENT", "KILL", "TYPE", "pubsub")
    await driver.starts(run)
    assert (await reading).json()["status"] == "in_progress"


async def test_a_server_that_stops_answers_those_it_holds(
    settings: Settings, store: Store, run: Run
) -> None:
    async def connect() -> Store:
        return store

    app = create_app(settings, connect)
    async with serve_app(app, on_stop=app.state.doorbell.close) as address:
        reader = Reader(address, app.state.doorbell, run)
        reading = reader.start(HELPER)
        await reader.are_held(1)
    assert (await reading).json()["status"] == "queued"


async def test_the_sdks_poll_helpers_end_within_milliseconds_of_the_run(
    client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread, doorbell: Doorbell
) -> None:
    runs = client.beta.threads.runs
    polling = asyncio.create_task(
        runs.create_and_poll(thread_id=thread.id, assistant_id=assistant.id)
    )
    (run,) = await until(lambda: listed(client, thread))
    reader = Reader("", doorbell, run)
    await reader.are_held(1)
    late_s = await lateness(polling, driver.asks(run, Asked("look_up")))
    waiting = polling.result()
    assert waiting.status == "requires_action"
    (call,) = waiting.required_action.submit_tool_outputs.tool_calls  # type: ignore[union-attr]
    polling = asyncio.create_task(
        runs.submit_tool_outputs_and_poll(
            run_id=run.id,
            thread_id=thread.id,
            tool_outputs=[{"tool_call_id": call.id, "output": "42"}],
        )
    )
    await reader.are_held(1)
    late_s = max(late_s, await lateness(polling, driver.answers(run, "42")))
    assert polling.result().status == "completed"
    assert late_s < 0.5  # a few milliseconds on a machine that is not busy; plain polling: a second


@pytest.mark.parametrize("status", sorted(FINAL - {RunStatus.EXPIRED}))
async def test_the_sdks_poll_helper_ends_with_every_run(
    client: AsyncOpenAI, driver: Driver, doorbell: Doorbell, run: Run, status: RunStatus
) -> None:
    polling = asyncio.create_task(client.beta.threads.runs.poll(run.id, thread_id=run.thread_id))
    await Reader("", doorbell, run).are_held(1)
    match status:
        case RunStatus.COMPLETED:
            await driver.answers(run, "Done")
        case RunStatus.INCOMPLETE:
            await driver.answers(run, "Do", stop=Stop.LENGTH)
        case RunStatus.FAILED:
            await driver.fails(run)
        case _:
            await driver.cancels(run)
    assert (await polling).status == status


async def test_a_client_that_only_polls_is_asked_the_same_question_each_time(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("look_up"))
    runs = client.beta.threads.runs
    first, *others = [await runs.poll(run.id, thread_id=run.thread_id) for _ in range(5)]
    assert first.status == "requires_action"
    assert all(other == first for other in others)


async def listed(client: AsyncOpenAI, thread: Thread) -> list[Run]:
    return (await client.beta.threads.runs.list(thread.id)).data


async def lateness(polling: asyncio.Task[Run], change: Awaitable[object]) -> float:
    """How long after the change the poll helper has returned."""
    await change
    began = time.perf_counter()
    await polling
    return time.perf_counter() - began


async def subscriptions(store: ValkeyStore) -> int:
    """Connections to the store that are subscribed."""
    listing = await store.pipeliner.call("CLIENT", "LIST", "TYPE", "pubsub")
    return len(listing.splitlines())
