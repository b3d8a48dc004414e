"""What each kind of timer does when its time has come.

Any number of engines may do this at once: a timer that is taken is postponed for the others, and
the command itself is refused when it means nothing any more.
"""

import asyncio
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class _Patience:
    """How long a call may wait if no live worker listens to its queue; and the queues with one."""

    ms: int
    served: frozenset[str]


async def fire_due(store: Store, patience_ms: int = PATIENCE_MS) -> int:
    """Act on the timers that are due now; returns how many there were (``BATCH``: ask again).

    ``patience_ms``: how long a call may wait when no worker serves its queue.
    """
    ours_until = asyncio.get_running_loop().time() + HOLD_MS / 1000
    due = await store.take_due(BATCH, HOLD_MS)
    await _fire(store, due, patience_ms, ours_until)
    return len(due)


async def fire(store: Store, timer: DueTimer, patience_ms: int = PATIENCE_MS) -> None:
    """Act on one due timer, and drop it where there is nothing left to do."""
    await _fire(store, [timer], patience_ms, math.inf)


async def _fire(store: Store, due: Sequence[DueTimer], patience_ms: int, ours_until: float) -> None:
    """Those of one run in turn: at once they would only be in each other's way. What is left when
    the hold is over is not ours any more, and may have been renewed.
    """
    is_waiting = any(timer.key.kind is TimerKind.CALL_WAIT for timer in due)
    served = await served_queues(store) if is_waiting else frozenset()
    clock = asyncio.get_running_loop().time
    by_run: defaultdict[RunRef, list[DueTimer]] = defaultdict(list)
    for timer in due:
        by_run[timer.ref].append(timer)

    async def in_turn(timers: Sequence[DueTimer]) -> None:
        for timer in timers:
            if clock() >= ours_until:
                return
            await _fire_one(store, timer, _Patience(patience_ms, served))

    await asyncio.gather(*map(in_turn, by_run.values()))


async def _fire_one(store: Store, timer: DueTimer, patience: _Patience) -> None:
    try:
        await _act(store, timer.ref, timer.key, patience)
    except (NotNow, Gone):
        log.debug("timer.stale", kind=timer.key.kind, run_id=timer.ref.run_id)
    else:
        if timer.key.kind is not TimerKind.DELETION:
            return  # what was decided has cleared it, or has set it anew
    await store.drop_timer(timer)


async def _act(store: Store, ref: RunRef, key: TimerKey, patience: _Patience) -> None:
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
            look = CheckWait(call_id, key.generation, patience.served, patience.ms)
            await change_run(store, ref, look)
        case TimerKind.CALL_APPROVAL:
            await change_run(store, ref, TimeOutApproval(call_id))
        case TimerKind.DELETION:
            await store.clear_thread(ref.thread_id)
        case _:
            assert_never(key.kind)


async def _recover(store: Store, ref: RunRef, key: TimerKey, command: Command) -> None:
    await change_run(store, ref, command)
    log.warning("timer.fired", kind=key.kind, run_id=ref.run_id)
