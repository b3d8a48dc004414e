"""The stream helpers of every SDK gather what is stored, through every ending of a run."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx2
import pytest

from orchestrator.settings import Settings
from orchestrator.storage.valkey import open_store
from tests.engine.rig import EngineRoom
from tests.http.conformance.sdks import SDKS, Sdk
from tests.http.conftest import serve
from tests.http.streams.scenarios import SCENARIOS, Scenario

TOURS = {
    "openai_python.py": "openai_streams.py",
    "openai_node.mjs": "openai_streams.mjs",
    "azure_python.py": "azure_streams.py",
}
SHORT_S = 1.5


@pytest.fixture
def sdk_cache(request: pytest.FixtureRequest) -> Path:
    """Where installed SDKs are kept between sessions."""
    cache: pytest.Cache = request.config.cache
    return cache.mkdir("sdks")


@pytest.fixture
async def short_lived(settings: Settings, engines: EngineRoom) -> AsyncIterator[str]:
    """A server whose runs expire early."""
    settings = settings.model_copy(update={"run_ttl_s": SHORT_S})
    async with serve(settings, lambda: open_store(settings)) as address:
        yield address


@pytest.mark.parametrize("sdk", SDKS, ids=str)
async def test_what_the_helpers_gather_is_what_is_stored(
    sdk: Sdk, sdk_cache: Path, address: str, short_lived: str, http: httpx2.AsyncClient
) -> None:
    command = replace(sdk, tour=TOURS[sdk.tour]).command(sdk_cache)
    wanted = [
        {
            "url": f"{short_lived if scenario.is_short_lived else address}/v1",
            "turns": scenario.turns,
            "cancels": scenario.cancels,
        }
        for scenario in SCENARIOS
    ]
    results = await play(command, wanted)
    for scenario, result in zip(SCENARIOS, results, strict=True):
        await check(scenario, result, http)


async def check(scenario: Scenario, result: dict[str, Any], http: httpx2.AsyncClient) -> None:
    """Compares what a helper gathered with what the api answers."""
    thread = f"/v1/threads/{result['thread_id']}"
    (run,) = (await http.get(f"{thread}/runs")).json()["data"]
    assert result["status"] == run["status"] == scenario.status, scenario.name
    messages = (await http.get(f"{thread}/messages?run_id={run['id']}")).json()["data"]
    stored = {one["id"]: "".join(p["text"]["value"] for p in one["content"]) for one in messages}
    assert result["texts"] == stored, scenario.name
    steps = (await http.get(f"{thread}/runs/{run['id']}/steps")).json()["data"]
    calls = {
        step["id"]: [
            [call["id"], call["function"]["name"], call["function"]["arguments"]]
            for call in step["step_details"]["tool_calls"]
        ]
        for step in steps
        if step["type"] == "tool_calls"
    }
    assert result["calls"] == calls, scenario.name
    assert f"thread.run.{scenario.status}" in result["events"]


async def play(command: list[str], scenarios: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Run a tour; what it says is told when it fails."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=pipe)
    try:
        told, complained = await process.communicate(json.dumps(scenarios).encode())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, complained.decode()
    results: list[dict[str, Any]] = json.loads(told)
    return results
