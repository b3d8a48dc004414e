"""Whole runs through all processes: ``python -m benchmarks.runs``.

Starts what ``runstate dev`` starts in a temporary folder, then measures runs of two turns with one
tool call between them: answered by the client, and answered by a worker. The floor beside them is
the same seven commands through the store alone: no HTTP, no queue, no model.
"""

import asyncio
import json
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import httpx2

from cli.stack import StackOptions, running_stack
from orchestrator.commands import (
    CallResult,
    ClaimCall,
    CreateRun,
    Outcome,
    ProposedCall,
    StartTurn,
    Stop,
    TurnResult,
)
from orchestrator.ids import mint
from orchestrator.records import RunSpec, Thread, ToolSpec
from orchestrator.settings import Settings
from orchestrator.shell import change_run, create_thread
from orchestrator.storage.embedded import find_free_port
from orchestrator.storage.embedded import start as start_server
from orchestrator.storage.valkey import open_store
from orchestrator.store import RunRef, Store

RUNS = 200
AT_ONCE = 32
ALONE = 15
WAIT = {"Prefer": "wait=10"}
WORKERS = 2
CALL = {"name": "add", "arguments": {"left": 20, "right": 22}}


def tool(name: str) -> dict[str, Any]:
    """A function tool of this name."""
    return {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}


class Client:
    """A client that creates runs, answers calls and waits, with plain HTTP."""

    def __init__(self, http: httpx2.AsyncClient, assistant_id: str, call: dict[str, Any]) -> None:
        self._http = http
        self._assistant_id = assistant_id
        self._script = json.dumps({"turns": [{"tool_calls": [call]}, {"text": "42"}]})

    async def run(self) -> float:
        """One run from create to completed; the seconds it took."""
        began = time.perf_counter()
        message = {"role": "user", "content": self._script}
        body = {"assistant_id": self._assistant_id, "thread": {"messages": [message]}}
        run = await self._post("/v1/threads/runs", body)
        path = f"/v1/threads/{run['thread_id']}/runs/{run['id']}"
        while run["status"] != "completed":
            if run["status"] == "requires_action":
                calls = run["required_action"]["submit_tool_outputs"]["tool_calls"]
                outputs = [{"tool_call_id": call["id"], "output": "42"} for call in calls]
                run = await self._post(f"{path}/submit_tool_outputs", {"tool_outputs": outputs})
            assert run["status"] in ("queued", "in_progress", "completed"), run
            run = (await self._http.get(path, headers=WAIT)).json()
        return time.perf_counter() - began

    async def _post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = await self._http.post(path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()


async def at_once(one: Callable[[], Awaitable[float]], total: int, width: int) -> float:
    """Runs per second with ``width`` under way at any time."""
    left = iter(range(total))

    async def lane() -> None:
        for _ in left:
            await one()

    began = time.perf_counter()
    await asyncio.gather(*(lane() for _ in range(width)))
    return total / (time.perf_counter() - began)


async def store_floor() -> tuple[float, float]:
    """Seconds of one run alone and runs per second at once, by the store alone."""
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        store = await open_store(Settings(redis_url=server.url))
        try:
            alone = [await _bare_run(store) for _ in range(ALONE)]
            return statistics.median(alone), await at_once(lambda: _bare_run(store), 1000, AT_ONCE)
        finally:
            await store.close()
            server.stop()


async def _bare_run(store: Store) -> float:
    began = time.perf_counter()
    call_id = mint("call")
    thread = Thread(id=mint("thread"), created_ms=0)
    spec = RunSpec(assistant_id="asst_1", model="none", tools=(tool("add"),))
    ref = RunRef(thread.id, mint("run"))
    await create_thread(store, thread, CreateRun(ref.run_id, spec, 600_000))
    await change_run(store, ref, StartTurn("e", 15_000))
    calls = (ProposedCall(call_id, "add", "{}"),)
    await change_run(store, ref, _reply(1, calls))
    await change_run(store, ref, ClaimCall(call_id, "w", 10_000))
    await change_run(store, ref, CallResult(call_id, 1, Outcome.SUCCEEDED, "42"))
    await change_run(store, ref, StartTurn("e", 15_000))
    await change_run(store, ref, _reply(2, ()))
    return time.perf_counter() - began


def _reply(generation: int, calls: Sequence[ProposedCall]) -> TurnResult:
    return TurnResult(
        generation=generation,
        text="42",
        calls=tuple(calls),
        stop=Stop.DONE,
        usage=None,
        message_id=mint("msg"),
        message_step_id=mint("step"),
        calls_step_id=mint("step"),
        tools={"add": ToolSpec(name="add")},
    )


async def whole_system(name: str, call: dict[str, Any]) -> None:
    """Measures one kind of run on a stack of its own and prints the row."""
    with tempfile.TemporaryDirectory() as folder:
        options = StackOptions(
            home=Path(folder),
            port=find_free_port(),
            workers=WORKERS,
            tools="benchmarks.tools",
            is_isolated=True,
        )
        async with (
            running_stack(options) as stack,
            httpx2.AsyncClient(base_url=stack.root_url, timeout=60) as http,
        ):
            body = {"model": "scripted/inline", "tools": [tool(call["name"])]}
            assistant = (await http.post("/v1/assistants", json=body)).json()
            client = Client(http, assistant["id"], call)
            alone = [await client.run() for _ in range(ALONE)]
            rate = await at_once(client.run, RUNS, AT_ONCE)
    _row(name, statistics.median(alone), rate)


def _row(name: str, alone_s: float, rate: float) -> None:
    print(f"{name:<44}{alone_s * 1000:>10.1f} ms{rate:>12.0f} /s", flush=True)


async def main() -> None:
    """All rows of the table."""
    print(f"{'one run: two turns, one call':<44}{'alone':>13}{f'{AT_ONCE} at once':>14}")
    _row("floor: its seven commits, store alone", *await store_floor())
    await whole_system("the client answers the call", {**CALL, "name": "ask_client"})
    await whole_system(f"one of {WORKERS} forking workers answers it", CALL)


if __name__ == "__main__":
    asyncio.run(main())
