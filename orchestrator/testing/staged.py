"""A tool as the kit has it called: in this process, and with what shall go wrong."""

import asyncio
from collections.abc import Sequence
from typing import Any, assert_never

from orchestrator.current import CurrentCall, current_call
from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.housekeeping import timers
from orchestrator.records import Json, ToolCall
from orchestrator.shell import expire
from orchestrator.store import DueTimer, RunRef, Store
from orchestrator.testing.clock import ClockedStore
from orchestrator.testing.fault import Fault
from orchestrator.tools import Tool


class StagedTool(Tool[..., Any]):
    """A tool for the worker of async tools: plain functions run in a thread, so that they may block
    as in a process of their own.
    """

    def __init__(self, tool: Tool[..., Any], faults: Sequence[Fault], store: ClockedStore) -> None:
        self.spec = tool.spec
        self.retry_on = tool.retry_on
        self.is_async = True
        self._tool = tool
        self._faults = faults
        self._store = store

    async def call(self, arguments: str | Json) -> Any:
        """Run the tool, and then let go wrong what is due at this attempt."""
        try:
            if self._tool.is_async:
                return await self._tool.call(arguments)
            return await asyncio.to_thread(self._tool.call, arguments)
        finally:
            call = current_call()
            if fault := self.fault(call.attempt):
                await self._go_wrong(fault, call)

    def fault(self, attempt: int) -> Fault | None:
        """What goes wrong at this attempt (from 1)."""
        return self._faults[attempt - 1] if attempt <= len(self._faults) else None

    async def _go_wrong(self, fault: Fault, call: CurrentCall) -> None:
        ref = RunRef(call.thread_id, call.run_id)
        match fault:
            case Fault.KILLED:
                await self._lose(ref, call.call_id)
                await _die()
            case Fault.LATE:
                await self._lose(ref, call.call_id)
            case Fault.EXPIRED:
                await self._store.move_to((await self._store.view(ref)).run.deadline_ms)
                await expire(self._store, ref)
                await _die()
            case Fault.TWICE:
                pass  # the dispatcher's part
            case _:
                assert_never(fault)

    async def _lose(self, ref: RunRef, call_id: str) -> None:
        view = await self._store.view(ref)
        call = next(call for call in view.calls if call.id == call_id)
        await fire_now(self._store, ref, TimerKind.CALL_LEASE, call)


async def fire_now(store: Store, ref: RunRef, kind: TimerKind, call: ToolCall) -> None:
    """Let the time of a call's timer come, as engines do."""
    key = TimerKey(kind, call.generation, call.id)
    await timers.fire(store, DueTimer(ref, key, at_ms=0))


async def _die() -> None:
    """End this call as a worker does that is stopped: without an answer."""
    if task := asyncio.current_task():
        task.cancel()
    await asyncio.sleep(0)
