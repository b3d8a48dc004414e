"""What each kind of timer does when its time has come.

Any number of engines may do this at once: a timer that is taken is postponed for the others, and
the command itself is refused when it means nothing any more.
"""

import asyncio
from typing import Final, assert_never

import structlog

from orchestrator.commands import (
    CallLost,
    CheckWait,
    Command,
    ConfirmCancel,
    RequeueTurn,
    SendAgain,
    TimeOutApproval,
)
from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.errors import Gone, NotNow
from orchestrator.shell import change_run, expire
from orchestrator.store import DueTimer, RunRef, Store, served_queues

BATCH: Final = 256
HOLD_MS: Final = 2_000
"""How long a taken timer is left to its taker; after that it is due again (the taker has died)."""

PATIENCE_MS: Final = 60_000

log = structlog.get_logger(__name__)


async def fire_due(store: Store, patience_ms: int = PATIENCE_MS) -> int:
    """Act on the timers that are due now; returns how many there were (``BATCH``: ask again).

    ``patience_ms``: how long a call may wait when no worker serves its queue.
    """
    due = await store.take_due(BATCH, HOLD_MS)
    await asyncio.gather(*(fire(store, timer, patience_ms) for timer in due))
    return len(due)


async def fire(store: Store, timer: DueTimer, patience_ms: int = PATIENCE_MS) -> None:
    """Act on one due timer, and drop it where there is nothing left to do."""
    try:
        await _act(store, timer.ref, timer.key, patience_ms)
    except (NotNow, Gone):
        log.debug("timer.stale", kind=timer.key.kind, run_id=timer.ref.run_id)
    else:
        if timer.key.kind is not TimerKind.DELETION:
            return  # what was decided has cleared it, or has set it anew
    await store.drop_timer(timer)


async def _act(store: Store, ref: RunRef, key: TimerKey, patience_ms: int) -> None:
    call_id = key.call_id or ""
    match key.kind:
        case TimerKind.DEADLINE:
            await expire(store, ref)
        case TimerKind.TURN_LEASE:
            await _recover(store, ref, key, RequeueTurn(key.generation))
        case TimerKind.CANCEL_WATCHDOG:
            await _recover(store, ref, key, ConfirmCancel())
        case TimerKind.CALL_LEASE:
            reason = "The worker that had this call fell silent."
            await _recover(store, ref, key, CallLost(call_id, key.generation, reason))
        case TimerKind.CALL_RETRY:
            await change_run(store, ref, SendAgain(call_id, key.generation))
        case TimerKind.CALL_WAIT:
            served = await served_queues(store)
            await change_run(store, ref, CheckWait(call_id, key.generation, served, patience_ms))
        case TimerKind.CALL_APPROVAL:
            await change_run(store, ref, TimeOutApproval(call_id))
        case TimerKind.DELETION:
            await store.clear_thread(ref.thread_id)
        case _:
            assert_never(key.kind)


async def _recover(store: Store, ref: RunRef, key: TimerKey, command: Command) -> None:
    await change_run(store, ref, command)
    log.warning("timer.fired", kind=key.kind, run_id=ref.run_id)
