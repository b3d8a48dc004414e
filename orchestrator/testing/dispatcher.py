"""From the outbox straight to a worker in this process: no queue, no other process."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.decisions import SendCall
from orchestrator.dispatch import Dispatcher
from orchestrator.ledger import StoreLedger
from orchestrator.settings import Settings
from orchestrator.store import Parcel, RunRef, Store
from orchestrator.testing.fault import Fault
from orchestrator.testing.staged import StagedTool
from workers.bench import Bench
from workers.job import execute_inline

WORKER: Final = "worker-in-test"


class InlineDispatcher(Dispatcher):
    """What is sent is done at once, by the job function of the workers."""

    def __init__(self, store: Store, settings: Settings, tools: Mapping[str, StagedTool]) -> None:
        self._store = store
        self._tools = tools
        ledger = StoreLedger(store)

        async def opened(_: Settings) -> StoreLedger:
            return ledger

        self._ledger = ledger
        self._bench = Bench(WORKER, tools, settings, opened, lambda _: ledger)
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def deliver(self, parcels: Sequence[Parcel]) -> None:
        """Begin the calls that are sent, cancel those that are stopped."""
        for parcel in parcels:
            call_id = parcel.order.call_id
            if isinstance(parcel.order, SendCall):
                self._tasks[call_id] = asyncio.create_task(self._do(parcel.ref, call_id))
            elif task := self._tasks.get(call_id):
                task.cancel()

    async def finish(self) -> None:
        """Wait for the calls under way, those that nobody waits for any more included."""
        for ended in await asyncio.gather(*self._tasks.values(), return_exceptions=True):
            if isinstance(ended, Exception):
                raise ended

    async def cancel(self) -> None:
        """Stop those that are left."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _do(self, ref: RunRef, call_id: str) -> None:
        view = await self._store.view(ref)
        call = next(call for call in view.calls if call.id == call_id)
        tool = self._tools.get(call.name)
        is_twice = tool is not None and tool.fault(call.attempts + 1) is Fault.TWICE
        jobs = 2 if is_twice else 1
        await asyncio.gather(
            *(execute_inline(self._bench, self._ledger, ref, call_id) for _ in range(jobs))
        )
