"""``python -m api`` as operators start it."""

import asyncio
import os
import re
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path

import httpx2
from pydantic import SecretStr

from orchestrator.store import Store

ROOT = Path(__file__).parents[2]


async def start(**settings: str) -> Process:
    environment = {f"RUNSTATE_{name.upper()}": value for name, value in settings.items()}
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "api", cwd=ROOT, env=environment, stderr=PIPE
    )


async def address_of(process: Process) -> str:
    assert process.stderr is not None
    async for line in process.stderr:
        if found := re.search(rb"https?://127\.0\.0\.1:\d+", line):
            return found[0].decode()
    raise AssertionError("the api ended before it said where it listens")


async def test_it_serves_until_it_is_told_to_stop(redis_url: SecretStr) -> None:
    process = await start(redis_url=redis_url.get_secret_value(), port="0", key_prefix="alone")
    async with httpx2.AsyncClient(base_url=await address_of(process)) as http:
        assert (await http.get("/healthz")).status_code == 200
        assert (await http.get("/readyz")).json()["missing"] == ["engine"]
    process.send_signal(signal.SIGTERM)
    _, log = await process.communicate()
    assert process.returncode in {0, -signal.SIGTERM}
    assert redis_url.get_secret_value().encode() not in log


async def test_it_refuses_to_serve_the_world_without_keys(redis_url: SecretStr) -> None:
    process = await start(redis_url=redis_url.get_secret_value(), host="0.0.0.0")  # noqa: S104
    _, log = await process.communicate()
    assert process.returncode == os.EX_CONFIG
    assert log.decode().strip() == (
        "Refusing to serve 0.0.0.0 without keys: anybody could use it. Set RUNSTATE_API_KEYS, or"
        " RUNSTATE_HOST=127.0.0.1."
    )


async def test_without_a_store_it_starts_and_waits_for_it() -> None:
    process = await start(redis_url="redis://127.0.0.1:1/0", port="0")
    async with httpx2.AsyncClient(base_url=await address_of(process)) as http:
        response = await http.post("/v1/threads")
        assert (response.status_code, response.headers["retry-after"]) == (503, "1")
        assert (await http.get("/ops/queues")).status_code == 503
    process.terminate()
    await process.communicate()


async def test_of_two_hundred_creates_through_two_processes_one_wins(
    redis_url: SecretStr, store: Store
) -> None:
    processes = [await start(redis_url=redis_url.get_secret_value(), port="0") for _ in range(2)]
    async with AsyncExitStack() as stack:
        both = [
            await stack.enter_async_context(
                httpx2.AsyncClient(base_url=f"{await address_of(process)}/v1/", timeout=60)
            )
            for process in processes
        ]
        assistant = (await both[0].post("assistants", json={"model": "scripted/echo"})).json()
        thread = (await both[1].post("threads")).json()
        bodies = [
            {
                "assistant_id": assistant["id"],
                "additional_messages": [{"role": "user", "content": f"number {number}"}],
            }
            for number in range(200)
        ]
        path = f"threads/{thread['id']}/runs"
        responses = await asyncio.gather(
            *(both[number % 2].post(path, json=body) for number, body in enumerate(bodies))
        )
    statuses = Counter(response.status_code for response in responses)
    assert statuses == {200: 1, 400: 199}
    (message,) = await store.read_entries(thread["id"])
    number = [response.status_code for response in responses].index(200)
    assert f"number {number}" in message.model_dump_json()
    for process in processes:
        process.terminate()
        await process.communicate()
