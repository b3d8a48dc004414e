"""An answer that a call has is brought, whatever happens meanwhile."""

import asyncio

from orchestrator.commands import CallResult
from orchestrator.ledger import CallCommand, StoreLedger
from orchestrator.loading import load_tools
from orchestrator.records import CallState, ToolCall
from orchestrator.settings import Settings
from orchestrator.store import RunRef
from tests.workers.scene import Scene
from workers.bench import Bench
from workers.job import execute_inline


class SlowLedger(StoreLedger):
    """A way to the ledger on which answers take their time."""

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene.store)
        self.is_asked, self.may_answer = asyncio.Event(), asyncio.Event()

    async def change(self, ref: RunRef, command: CallCommand) -> ToolCall:
        if isinstance(command, CallResult):
            self.is_asked.set()
            await self.may_answer.wait()
        return await super().change(ref, command)


async def test_a_stop_that_comes_after_the_answer_does_not_undo_it(
    scene: Scene, settings: Settings
) -> None:
    ledger = SlowLedger(scene)

    async def opened(_: Settings) -> StoreLedger:
        return ledger

    bench = Bench("w", load_tools("tests.workers.toolbox"), settings, opened, lambda _: ledger)
    asked = await scene.ask("wait", seconds=0)
    task = asyncio.create_task(execute_inline(bench, ledger, asked.ref, asked.id))
    await ledger.is_asked.wait()
    task.cancel()
    ledger.may_answer.set()
    await task
    assert (await asked.now()).state is CallState.SUCCEEDED
