"""The stream helpers of every SDK gather what is stored, through every ending of a run."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from orchestrator.commands import CallResult, ClaimCall, Outcome
from orchestrator.dispatch import Dispatcher
from orchestrator.records import ToolSpec
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.states import FINAL
from orchestrator.storage.valkey import open_store
from orchestrator.store import Parcel, Store
from tests.engine.rig import EngineRoom
from tests.http.conformance.sdks import Sdk
from tests.http.conftest import serve
from tests.http.streams.scenarios import CHARACTERS, SCENARIOS, Scenario
from tests.http.streams.tours import HELPERS, byte_by_byte, gathered, tour

SHORT_S: Final = 1.5
ENDS: Final = frozenset(f"thread.run.{status}" for status in FINAL)


class Worker(Dispatcher):
    """Answers at once what is sent to it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def deliver(self, parcels: Sequence[Parcel]) -> None:
        for parcel in parcels:
            call_id = parcel.order.call_id
            claim = ClaimCall(call_id, "worker-1", lease_ms=60_000)
            call = (await change_run(self._store, parcel.ref, claim)).call(call_id)
            assert call is not None
            result = CallResult(call_id, call.generation, Outcome.SUCCEEDED, "Here it is.")
            await change_run(self._store, parcel.ref, result)


@pytest.fixture
async def work(store: Store, idle_engines: EngineRoom) -> None:
    """An engine, and a worker that fetches."""
    await store.publish_tools([ToolSpec(name="fetch")], ttl_s=600)
    idle_engines.start("engine-1", dispatcher=Worker(store))


@pytest.fixture
async def short_lived(settings: Settings, work: None) -> AsyncIterator[str]:
    """A server whose runs expire early."""
    settings = settings.model_copy(update={"run_ttl_s": SHORT_S})
    async with serve(settings, lambda: open_store(settings)) as address:
        yield address


@pytest.mark.parametrize("helper", HELPERS, ids=str)
async def test_what_the_helpers_gather_is_what_is_stored(
    helper: Sdk, sdk_cache: Path, address: str, short_lived: str, http: httpx2.AsyncClient
) -> None:
    scenarios = [one for one in SCENARIOS if not (one.makes_thread and helper.streams_not)]
    wanted = [one.wanted(short_lived if one.is_short_lived else address) for one in scenarios]
    async with tour(helper, sdk_cache, wanted) as process:
        results = await gathered(process)
    for scenario, result in zip(scenarios, results, strict=True):
        await check(scenario, result, http)


@pytest.mark.parametrize("helper", HELPERS, ids=str)
async def test_helpers_join_characters_of_which_every_byte_comes_alone(
    helper: Sdk, sdk_cache: Path, address: str, work: None, http: httpx2.AsyncClient
) -> None:
    async with (
        byte_by_byte(address) as slow,
        tour(helper, sdk_cache, [CHARACTERS.wanted(slow)]) as process,
    ):
        (result,) = await gathered(process)
    await check(CHARACTERS, result, http)


async def check(scenario: Scenario, result: dict[str, Any], http: httpx2.AsyncClient) -> None:
    """Compares what a helper gathered with what the api answers."""
    assert result["error"] is None, scenario.name
    thread = f"/v1/threads/{result['thread_id']}"
    (run,) = (await http.get(f"{thread}/runs")).json()["data"]
    assert result["status"] == run["status"] == scenario.status, scenario.name
    messages = (await http.get(f"{thread}/messages?run_id={run['id']}")).json()["data"]
    stored = {one["id"]: "".join(map(words, one["content"])) for one in messages}
    assert result["texts"] == {key: text for key, text in stored.items() if text}, scenario.name
    steps = (await http.get(f"{thread}/runs/{run['id']}/steps")).json()["data"]
    asked = {
        step["id"]: [
            [call["id"], call["function"]["name"], call["function"]["arguments"]]
            for call in step["step_details"]["tool_calls"]
        ]
        for step in steps
        if step["step_details"].get("tool_calls")  # those of a reply that was cut never run
    }
    assert {key: result["calls"].get(key) for key in asked} == asked, scenario.name
    assert ("thread.created" in result["events"]) == scenario.makes_thread
    ends = [event for event in result["events"] if event in ENDS]
    assert ends == [f"thread.run.{scenario.status}"], scenario.name


def words(part: dict[str, Any]) -> str:
    """What a part of a message says."""
    said: str = part["refusal"] if part["type"] == "refusal" else part["text"]["value"]
    return said
