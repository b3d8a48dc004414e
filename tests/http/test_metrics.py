"""What Prometheus reads."""

import re

import httpx2
import pytest
from openai.types.beta.threads import Run
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr

from orchestrator.dispatch import Dispatcher
from orchestrator.records import Usage
from orchestrator.settings import ApiKey, Settings
from orchestrator.storage.embedded import find_free_port
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Presence, Store
from tests.house.tree import ROOT
from tests.http.driver import Asked, Driver
from tests.store.faults import Faulty
from tests.store.samples import put_run

Figures = dict[tuple[str, ...], float]


async def scrape(http: httpx2.AsyncClient) -> Figures:
    """Every sample, by its name and its labels' values."""
    response = await http.get("/metrics")
    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/plain; version=")
    return {
        (
            sample.name.removeprefix("runstate_"),
            *(value for _, value in sorted(sample.labels.items())),
        ): sample.value
        for family in text_string_to_metric_families(response.text)
        for sample in family.samples
    }


async def test_runs_are_counted_by_the_status_that_clients_see(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    assert (await scrape(http))["runs", "queued"] == 1
    _, second = await driver.asks(run, Asked("look_up"), Asked("measure"), workers=("measure",))
    assert (await scrape(http))["runs", "requires_action"] == 1
    await driver.works(run, second, "1 m")
    assert (await scrape(http))["runs", "requires_action"] == 1
    await driver.cancels(run)
    figures = await scrape(http)
    assert {name: value for name, value in figures.items() if name[0] == "runs"} == {
        ("runs", "queued"): 0,
        ("runs", "in_progress"): 0,
        ("runs", "requires_action"): 0,
        ("runs", "cancelling"): 0,
    }


async def test_tokens_and_turns_are_counted_by_tenant_and_model(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    usage = Usage(prompt_tokens=10, completion_tokens=3, cached_tokens=4)
    await driver.answers(run, "Done", usage=usage)
    figures = await scrape(http)
    place = ("scripted/inline", "default")
    assert [
        figures[f"{name}_total", *place]
        for name in ("answered_turns", "prompt_tokens", "cached_tokens", "completion_tokens")
    ] == [1, 10, 4, 3]
    assert (figures["unpriced_turns_total", *place], figures["cost_dollars_total", *place]) == (
        1,
        0,
    )


async def test_queues_are_measured_and_those_without_a_worker_are_named(
    http: httpx2.AsyncClient, settings: Settings, store: Store, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("measure"), Asked("measure"), workers=("measure",))
    await Dispatcher(store, settings).deliver(await store.take_parcels(10, 60_000))
    figures = await scrape(http)
    assert figures["queue_depth", "tools"] == figures["unserved_calls", "tools"] == 2
    assert 0 <= figures["queue_oldest_seconds", "tools"] < 60
    await store.beat(Presence("worker", "w", {"queue": "tools"}), 60_000)
    await store.beat(Presence("engine", "e", {"turns": "7"}), 60_000)
    figures = await scrape(http)
    assert ("unserved_calls", "tools") not in figures
    assert (figures["workers", "tools"], figures["engines",], figures["turns_in_progress",]) == (
        1,
        1,
        7,
    )
    await store.leave("worker", "w")
    await store.leave("engine", "e")


async def test_the_documents_tell_of_every_metric_and_of_no_other(
    http: httpx2.AsyncClient, store: Store, driver: Driver, run: Run
) -> None:
    await driver.answers(run, "Done")
    await store.beat(Presence("worker", "w", {"queue": "tools"}), 60_000)
    told = {f"runstate_{name}" for name, *_ in await scrape(http)}
    text = (ROOT / "docs" / "production.md").read_text()
    known = set(re.findall(r"\brunstate_[a-z_]+", text))
    depths = {"runstate_queue_depth", "runstate_queue_oldest_seconds", "runstate_unserved_calls"}
    assert told | depths == known
    await store.leave("worker", "w")


async def test_a_scrape_costs_the_same_however_much_there_is(
    http: httpx2.AsyncClient, store: ValkeyStore
) -> None:
    counting = Faulty(store, fail_at=0, after=False)
    await scrape(http)
    little = counting.calls
    for number in range(10):
        await store.beat(Presence("worker", f"w{number}", {"queue": "tools"}), 60_000)
        await put_run(store)
    counting.calls = 0
    await scrape(http)
    assert counting.calls == little + 1  # the documents of the workers, in one round trip


class TestWithoutQueues:
    """The server of the queues is gone."""

    @pytest.fixture
    def settings(self, redis_url: SecretStr) -> Settings:
        nowhere = SecretStr(f"redis://127.0.0.1:{find_free_port()}")
        return Settings(redis_url=redis_url, queue_url=nowhere)

    async def test_all_else_is_still_told(self, http: httpx2.AsyncClient) -> None:
        figures = await scrape(http)
        assert (figures["queue_server_up",], figures["overdue_timers",]) == (0, 0)


class TestWithKeys:
    """Only who has a key may read them."""

    @pytest.fixture
    def settings(self, redis_url: SecretStr) -> Settings:
        return Settings(redis_url=redis_url, api_keys=(ApiKey(secret=SecretStr("s3cret")),))

    async def test_a_key_is_needed(self, http: httpx2.AsyncClient) -> None:
        assert (await http.get("/metrics")).status_code == 401
        http.headers["authorization"] = "Bearer s3cret"
        assert (await scrape(http))["queue_server_up",] == 1
