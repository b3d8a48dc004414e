"""Runs without an engine: made straight in a store of their own, up to calls that a worker has."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, TypeVar

from orchestrator.commands import ClaimCall, CreateRun, ProposedCall, StartTurn, Stop, TurnResult
from orchestrator.ids import mint
from orchestrator.records import RunSpec, Thread, ToolSpec
from orchestrator.settings import Settings
from orchestrator.shell import change_run, create_thread
from orchestrator.storage.embedded import start as start_server
from orchestrator.storage.valkey import ValkeyStore, open_store
from orchestrator.store import RunRef

LONG_MS: Final = 3_600_000
AT_ONCE: Final = 200

T = TypeVar("T")


@asynccontextmanager
async def own_store() -> AsyncIterator[tuple[Settings, ValkeyStore]]:
    """A store on a server that nobody else has, and the settings that lead to it."""
    with tempfile.TemporaryDirectory() as folder:
        server = start_server(Path(folder))
        settings = Settings(redis_url=server.url)
        store = await open_store(settings)
        try:
            yield settings, store
        finally:
            await store.close()
            server.stop()


async def many(total: int, one: Callable[[int], Awaitable[T]]) -> list[T]:
    """What so many of them give, numbered from 0."""
    room = asyncio.Semaphore(AT_ONCE)

    async def in_its_turn(number: int) -> T:
        async with room:
            return await one(number)

    return await asyncio.gather(*map(in_its_turn, range(total)))


async def make_run(store: ValkeyStore, tool: ToolSpec, ttl_ms: int = LONG_MS) -> RunRef:
    """A queued run on a thread of its own, which declares the tool."""
    ref = RunRef(mint("thread"), mint("run"))
    declared = {"type": "function", "function": {"name": tool.name}}
    spec = RunSpec(assistant_id="asst_1", model="none", tools=(declared,))
    thread = Thread(id=ref.thread_id, created_ms=0)
    await create_thread(store, thread, CreateRun(ref.run_id, spec, ttl_ms))
    return ref


async def make_round(
    store: ValkeyStore, tool: ToolSpec, calls: int
) -> tuple[RunRef, tuple[str, ...]]:
    """A run that waits for so many calls of the tool, which a worker has claimed; and their ids."""
    ref = await make_run(store, tool)
    await change_run(store, ref, StartTurn("engine", LONG_MS))
    call_ids = tuple(mint("call") for _ in range(calls))
    turn = TurnResult(
        generation=1,
        text=None,
        calls=tuple(ProposedCall(call_id, tool.name, "{}") for call_id in call_ids),
        stop=Stop.TOOLS,
        usage=None,
        message_id=mint("msg"),
        message_step_id=mint("step"),
        calls_step_id=mint("step"),
        tools={tool.name: tool},
    )
    await change_run(store, ref, turn)
    for call_id in call_ids:
        await change_run(store, ref, ClaimCall(call_id, "worker", LONG_MS))
    return ref, call_ids
