"""The one function that workers run: claim a call, run its tool, bring its answer.

It returns nothing to RQ and raises nothing of the tool's: what counts is written to the ledger,
under the generation of the claim.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeVar

import structlog

from orchestrator.commands import CallResult, ClaimCall
from orchestrator.errors import Gone, NotNow, StoreUnavailable
from orchestrator.records import ToolCall
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from workers.attempt import Answer, attempt, failed
from workers.loader import Tools

GRACE_S: Final = 5.0
"""So long after its deadline a call may still be ended and answered by its worker."""

_PAUSE_S: Final = 0.5

T = TypeVar("T")
log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Bench:
    """What a worker gives its jobs: they are told ids, and find everything else here.

    ``open_store`` makes the store ready for use; ``connect_store`` relies on somebody else having
    done so, which saves a child some 7 ms.
    """

    worker: str
    tools: Tools
    settings: Settings
    open_store: Callable[[Settings], Awaitable[Store]]
    connect_store: Callable[[Settings], Store]

    @property
    def lease_ms(self) -> int:
        """How long a worker may be silent about a call."""
        return round(self.settings.call_lease_s * 1000)


BENCH: Final = ContextVar[Bench]("bench")
"""Set by the worker before its first job; forked children inherit it."""


def execute(thread_id: str, run_id: str, call_id: str) -> None:
    """Do the call, if it is still to be done; else nothing."""
    bench = BENCH.get()
    ref = RunRef(thread_id, run_id)
    ids = structlog.contextvars.bound_contextvars(
        thread_id=thread_id, run_id=run_id, tool_call_id=call_id
    )
    with ids, asyncio.Runner() as runner:
        store = bench.connect_store(bench.settings)
        call = runner.run(_claim(store, ref, call_id, bench))
        if call is not None:
            # Outside of our loop: sync tools may block, async ones get a loop of their own.
            give_up_at = time.monotonic() + _limit_s(call) + GRACE_S
            answer = _answer(bench, call)
            runner.run(_report(store, ref, call, answer, give_up_at - time.monotonic()))
        runner.run(store.close())


async def _claim(store: Store, ref: RunRef, call_id: str, bench: Bench) -> ToolCall | None:
    """The call under this worker's generation. ``None``: somebody else's, over, or gone."""
    command = ClaimCall(call_id, bench.worker, bench.lease_ms)
    try:
        aggregate = await _insist(lambda: change_run(store, ref, command))
    except (NotNow, Gone) as error:
        log.info("call.not_claimed", reason=error.code)
        return None
    log.info("call.claimed")
    return aggregate.call(call_id)


def _limit_s(call: ToolCall) -> float:
    """The time that the claim gave, in seconds."""
    return ((call.deadline_ms or 0) - (call.started_ms or 0)) / 1000


def _answer(bench: Bench, call: ToolCall) -> Answer:
    tool = bench.tools.get(call.name)
    if tool is None:
        message = f"This worker has no tool named {call.name}: it was started with other tools."
        return failed("tool_not_loaded", message)
    return attempt(tool, call.arguments, _limit_s(call))


async def _report(
    store: Store, ref: RunRef, call: ToolCall, answer: Answer, patience_s: float
) -> None:
    command = CallResult(call.id, call.generation, answer.outcome, answer.text, answer.error)
    try:
        await _insist(lambda: change_run(store, ref, command), patience_s)
    except (NotNow, Gone) as error:
        log.info("call.not_wanted", reason=error.code)
    else:
        log.info("call.answered", outcome=answer.outcome)


async def _insist(act: Callable[[], Awaitable[T]], patience_s: float | None = None) -> T:
    """Repeat while the store is away. Without a patience of its own: until RQ's time limit."""
    async with asyncio.timeout(patience_s):
        while True:
            try:
                return await act()
            except StoreUnavailable:
                log.warning("store.unavailable")
                await asyncio.sleep(_PAUSE_S)
