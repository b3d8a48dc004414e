"""Runs and engines for the tests of this room: a real store, real engines, scripted models."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from orchestrator.commands import CreateRun, NewMessage
from orchestrator.dispatch import Dispatcher
from orchestrator.engine.engine import Engine
from orchestrator.engine.guards import Guards
from orchestrator.ids import mint
from orchestrator.llm.routing import Models
from orchestrator.records import Message, MessageStatus, RunSpec, Thread
from orchestrator.settings import Settings
from orchestrator.shell import change_thread, create_thread, view_run
from orchestrator.store import DueTimer, PageQuery, Ring, RunRef, RunView, Store
from tests.waiting import until

Script = Mapping[str, Any]


def new_message(text: str) -> NewMessage:
    """A user's message with this text."""
    part = {"type": "text", "text": {"value": text, "annotations": []}}
    return NewMessage(mint("msg"), "user", (part,))


def run_command(
    script: Script, tools: Sequence[str] = (), ttl_s: float = 60, **spec: Any
) -> CreateRun:
    """A run that plays the script, with function tools of these names."""
    declared = tuple({"type": "function", "function": {"name": name}} for name in tools)
    fields = {"assistant_id": "asst_1", "model": "scripted/inline", "tools": declared} | spec
    return CreateRun(
        run_id=mint("run"),
        spec=RunSpec(**fields),
        ttl_ms=round(ttl_s * 1000),
        additional_messages=(new_message(json.dumps(script)),),
    )


async def start_run(store: Store, command: CreateRun, thread_id: str | None = None) -> RunRef:
    """The run, queued, on a thread of its own unless one is named."""
    if thread_id is None:
        thread = Thread(id=mint("thread"), created_ms=0)
        await create_thread(store, thread, command)
        return RunRef(thread.id, command.run_id)
    await change_thread(store, thread_id, command)
    return RunRef(thread_id, command.run_id)


async def run_reaches(store: Store, ref: RunRef, *statuses: str, within_s: float = 15) -> RunView:
    """The run as it is once it has one of these statuses."""

    async def look() -> RunView | None:
        view = await view_run(store, ref)
        return view if view.run.status in statuses else None

    return await until(look, within_s)


async def texts(store: Store, thread_id: str, role: str = "assistant") -> list[str]:
    """What was said on the thread by this role, in order, without what was broken off."""
    page = await store.list_messages(thread_id, PageQuery(limit=100, order="asc"))
    return [
        _text(message)
        for message in page.items
        if message.role == role and message.status is MessageStatus.COMPLETED
    ]


def _text(message: Message) -> str:
    value = message.content[0]["text"]["value"]
    assert isinstance(value, str)
    return value


class CutOffStore:
    """A real store whose user renews no lease, fires no timer and never hears how its runs do."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def renew(self, *_: Any) -> bool:
        """Pretends."""
        return True

    async def take_due(self, *_: Any) -> tuple[DueTimer, ...]:
        """Finds nothing."""
        return ()

    async def rings(self) -> AsyncIterator[Ring]:
        """The doorbell without the statuses."""
        async for ring in self._store.rings():
            yield replace(ring, status=None)


class EngineRoom:
    """Engines of one test, each on the same store."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self.store = store
        self.settings = settings
        self.models = Models(settings)
        self._tasks: dict[str, tuple[asyncio.Task[None], asyncio.Event, Engine]] = {}

    def start(
        self,
        name: str,
        store: Store | None = None,
        dispatcher: Dispatcher | None = None,
        guards: Guards | None = None,
    ) -> Engine:
        """An engine at work."""
        of_engine = store or self.store
        dispatcher = dispatcher or Dispatcher(of_engine, self.settings)
        engine = Engine(of_engine, self.models, dispatcher, self.settings, name, guards)
        stop = asyncio.Event()
        self._tasks[name] = (asyncio.create_task(engine.run(stop)), stop, engine)
        return engine

    async def stop(self, name: str) -> None:
        """As SIGTERM does."""
        task, stop, _ = self._tasks.pop(name)
        stop.set()
        await task

    async def kill(self, name: str) -> None:
        """As SIGKILL does: nothing is handed back, nothing is committed any more."""
        task, _, engine = self._tasks.pop(name)
        for turn in tuple(engine._turns):
            turn.cancel()
        task.cancel()
        await asyncio.gather(task, *engine._turns, return_exceptions=True)

    async def close(self) -> None:
        """Stop what still runs."""
        for name in tuple(self._tasks):
            await self.kill(name)
        await self.models.aclose()
