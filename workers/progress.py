"""The way of a tool's words about its progress into the run's log. None of them is worth waiting
for long, or failing for.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final

import structlog

from orchestrator.commands import CallProgress
from orchestrator.errors import RunstateError
from orchestrator.ledger import WorkerLedger
from orchestrator.records import ToolCall
from orchestrator.store import RunRef

WAIT_S: Final = 1.0
"""So long a word may take; then the tool goes on without it."""

Tell = Callable[[str], None]

log = structlog.get_logger(__name__)


def tell_from_child(connect: Callable[[], WorkerLedger], ref: RunRef, call: ToolCall) -> Tell:
    """For a process of its own, whose main thread may or may not run an event loop: each word takes
    a thread and a connection, some 5 ms.
    """

    async def told(text: str) -> None:
        ledger = connect()
        try:
            await _tell(ledger, ref, call, text)
        finally:
            await ledger.close()

    def tell(text: str) -> None:
        context = contextvars.copy_context()
        thread = threading.Thread(target=context.run, args=(_run, told(text)), daemon=True)
        thread.start()
        thread.join(WAIT_S)

    return tell


def tell_from_loop(ledger: WorkerLedger, turn: asyncio.Lock, ref: RunRef, call: ToolCall) -> Tell:
    """For the event loop that this is called on; tools may speak from any thread."""
    loop = asyncio.get_running_loop()

    async def told(text: str) -> None:
        async with turn:
            await _tell(ledger, ref, call, text)

    def tell(text: str) -> None:
        asyncio.run_coroutine_threadsafe(told(text), loop)

    return tell


def _run(telling: Coroutine[Any, Any, None]) -> None:
    asyncio.run(telling)


async def _tell(ledger: WorkerLedger, ref: RunRef, call: ToolCall, text: str) -> None:
    try:
        async with asyncio.timeout(WAIT_S):
            await ledger.change(ref, CallProgress(call.id, call.generation, text))
    except (RunstateError, TimeoutError) as error:
        log.info("progress.not_told", reason=type(error).__name__)
