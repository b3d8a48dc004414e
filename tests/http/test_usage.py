"""What was used and what it cost: of a run, a step, a thread, a tenant, a model, a day."""

from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run
from pydantic import SecretStr

from cli.client import Client
from cli.runs import list_runs, say_why, show_run
from cli.usage import show_usage
from orchestrator.days import day_of
from orchestrator.records import Price, Usage
from orchestrator.settings import ApiKey, Settings
from orchestrator.store import Store
from tests.http.driver import Asked, Driver

SPENT = Usage(prompt_tokens=1_000, completion_tokens=100, cached_tokens=600)
PRICE = Price(prompt=2, completion=10, cached=0.5)
KEYS = (
    ApiKey(secret=SecretStr("key-of-the-library"), tenant="library"),
    ApiKey(secret=SecretStr("key-without-a-name")),
)


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url, api_keys=KEYS, model_prices={"scripted/*": PRICE})


@pytest.fixture
def client(client: AsyncOpenAI) -> AsyncOpenAI:
    return client.with_options(api_key="key-of-the-library")


@pytest.fixture
def http(http: httpx2.AsyncClient) -> httpx2.AsyncClient:
    http.headers["authorization"] = "Bearer key-without-a-name"
    return http


async def read(http: httpx2.AsyncClient, path: str, **query: str) -> Any:
    response = await http.get(path, params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_runs_and_steps_say_what_they_cost(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",), usage=SPENT)
    await driver.works(run, call_id, "1 m")
    await driver.answers(run, "Done", usage=SPENT)
    ended = await client.beta.threads.runs.retrieve(run.id, thread_id=run.thread_id)
    assert ended.usage
    assert ended.usage.to_dict() == {
        "prompt_tokens": 2_000,
        "completion_tokens": 200,
        "total_tokens": 2_200,
        "prompt_token_details": {"cached_tokens": 1_200},
        "cost_usd": 0.0042,
    }
    steps = await client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id)
    costs = [step.usage.to_dict()["cost_usd"] for step in steps.data if step.usage]
    assert costs == [0.0021, 0.0021]


async def test_a_thread_has_the_sum_of_its_runs(
    http: httpx2.AsyncClient,
    client: AsyncOpenAI,
    driver: Driver,
    assistant: Assistant,
    thread: Thread,
) -> None:
    for usage in (SPENT, SPENT, None):
        run = await client.beta.threads.runs.create(thread.id, assistant_id=assistant.id)
        await driver.answers(run, "Done", usage=usage)
    report = await read(http, f"/ops/threads/{thread.id}")
    assert (report["id"], report["active_run_id"], report["waiting"]) == (thread.id, None, 0)
    assert report["usage"] == {
        "turns": 3,
        "uncounted_turns": 1,
        "unpriced_turns": 1,
        "prompt_tokens": 2_000,
        "cached_tokens": 1_200,
        "completion_tokens": 200,
        "total_tokens": 2_200,
        "cost_usd": 0.0042,
    }
    assert (await http.get("/ops/threads/thread_x")).status_code == 404


async def test_what_was_used_stays_when_its_thread_is_deleted(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.answers(run, "Done", usage=SPENT)
    before = await read(http, "/ops/usage")
    await client.beta.threads.delete(run.thread_id)
    assert (await http.get(f"/ops/threads/{run.thread_id}")).status_code == 404
    assert await read(http, "/ops/usage") == before
    assert before["total"]["turns"] == 1


async def test_each_tenant_is_counted_by_its_key(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.answers(run, "Done", usage=SPENT)
    nameless = client.with_options(api_key="key-without-a-name")
    other = await nameless.beta.threads.create_and_run(
        assistant_id=run.assistant_id, model="unknown-price"
    )
    await driver.answers(other, "Done", usage=SPENT)
    report = await read(http, "/ops/usage")
    default, library = report["data"]
    assert (default["name"], default["cost_usd"], default["unpriced_turns"]) == ("default", None, 1)
    assert (library["name"], library["cost_usd"], library["unpriced_turns"]) == (
        "library",
        0.0021,
        0,
    )
    assert (report["total"]["turns"], report["total"]["cost_usd"]) == (2, 0.0021)
    models = (await read(http, "/ops/usage", by="model"))["data"]
    assert [row["name"] for row in models] == ["scripted/inline", "unknown-price"]


async def test_days_are_of_utc_and_both_ends_are_counted(
    http: httpx2.AsyncClient, store: Store, driver: Driver, run: Run
) -> None:
    await driver.answers(run, "Done", usage=SPENT)
    today = day_of(await store.now_ms()).isoformat()
    by_day = await read(http, "/ops/usage", by="day", **{"from": today, "to": today})
    assert [row["name"] for row in by_day["data"]] == [today]
    before = await read(http, "/ops/usage", **{"from": "2020-01-01", "to": "2020-02-01"})
    assert (before["data"], before["total"]["turns"]) == ([], 0)


@pytest.mark.parametrize(
    "query",
    [
        {"by": "colour"},
        {"from": "yesterday"},
        {"from": "2026-01-02", "to": "2026-01-01"},
        {"from": "2020-01-01", "to": "2026-01-01"},
    ],
)
async def test_a_time_that_makes_no_sense_is_refused(
    http: httpx2.AsyncClient, query: dict[str, str]
) -> None:
    response = await http.get("/ops/usage", params=query)
    assert response.status_code == 400
    assert response.json()["error"]["type"] == "invalid_request_error"


async def test_the_commands_tell_of_costs_and_why_a_run_is_where_it_is(
    address: str, driver: Driver, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    await driver.answers(run, "Done", usage=SPENT)
    await show_usage(Client(address, "key-of-the-library"), "tenant", "2026-01-01", None)
    _, library, every = printed(capsys)
    assert library.split() == ["library", "1", "1000", "600", "100", "$0.002100"]
    assert every.split()[0] == "all"
    await show_run(Client(address, "key-of-the-library"), run.id)
    lines = printed(capsys)
    assert any(line.startswith("why      The model gave its answer") for line in lines)
    assert "tokens   1000 + 100, $0.002100" in lines
    assert lines[-1].endswith("s  run     completed")
    await say_why(Client(address, "key-of-the-library"), run.id)
    assert printed(capsys)[0].startswith("completed: The model gave its answer after 1 turn")
    await list_runs(Client(address, "key-of-the-library"), 5, "completed", run.thread_id)
    assert printed(capsys)[1].startswith(f"{run.id}  completed")
    await list_runs(Client(address, "key-of-the-library"), 5, "failed", None)
    assert len(printed(capsys)) == 1


async def test_the_command_says_what_is_not_known(
    address: str, client: AsyncOpenAI, driver: Driver, run: Run, capsys: pytest.CaptureFixture[str]
) -> None:
    for usage, model in ((SPENT, None), (SPENT, "unknown"), (None, None)):
        other = await client.beta.threads.create_and_run(assistant_id=run.assistant_id, model=model)
        await driver.answers(other, "Done", usage=usage)
    await show_usage(Client(address, "key-of-the-library"), "model", None, None)
    _, known, unknown, every = printed(capsys)
    assert known.endswith("and 1 turn of unknown cost, 1 of unknown tokens")
    assert unknown.split()[-1] == "unknown"
    assert every.endswith("and 2 turns of unknown cost, 1 of unknown tokens")


def printed(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What a command has printed; the log of the api goes the same way."""
    lines = capsys.readouterr().out.splitlines()
    return [line.rstrip() for line in lines if "request.done" not in line]
