"""What each kind of timer does when its time has come.

Any number of engines may do this at once: a timer that is taken is postponed for the others, and
the command itself is refused when it means nothing any more.
"""

import asyncio
from typing import Final, assert_never

import structlog

from orchestrator.commands import CallLost, Command, ConfirmCancel, RequeueTurn
from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.errors import Gone, NotNow
from orchestrator.shell import change_run, expire
from orchestrator.store import DueTimer, Store

BATCH: Final = 256
HOLD_MS: Final = 2_000
"""How long a taken timer is left to its taker; after that it is due again (the taker has died)."""

log = structlog.get_logger(__name__)


async def fire_due(store: Store) -> int:
    """Act on the timers that are due now; returns how many there were (``BATCH``: ask again)."""
    due = await store.take_due(BATCH, HOLD_MS)
    await asyncio.gather(*(fire(store, timer) for timer in due))
    return len(due)


async def fire(store: Store, timer: DueTimer) -> None:
    """Act on one due timer, and drop it where there is nothing left to do."""
    command = _command(timer.key)
    try:
        if command is None:
            await expire(store, timer.ref)
        else:
            await change_run(store, timer.ref, command)
            log.warning("timer.fired", kind=timer.key.kind, run_id=timer.ref.run_id)
    except (NotNow, Gone):
        log.debug("timer.stale", kind=timer.key.kind, run_id=timer.ref.run_id)
    await store.drop_timer(timer)


def _command(key: TimerKey) -> Command | None:
    """The command for a timer; ``None``: nothing but the deadline, which the shell applies."""
    match key.kind:
        case TimerKind.DEADLINE:
            return None
        case TimerKind.TURN_LEASE:
            return RequeueTurn(key.generation)
        case TimerKind.CANCEL_WATCHDOG:
            return ConfirmCancel()
        case TimerKind.CALL_LEASE:
            reason = "The worker that had this call fell silent."
            return CallLost(key.call_id or "", key.generation, reason)
        case _:
            assert_never(key.kind)
