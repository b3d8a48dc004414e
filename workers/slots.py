"""The turn of a call whose tool may only be executed so many times at once (``max_concurrency``).

A slot is taken before the claim, kept with the call's lease, and given back after the answer; that
of a worker which is gone runs out. RQ's own ``RateLimit`` loses the slots of killed workers.
"""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from typing import Final

import structlog

from orchestrator.commands import PostponeCall
from orchestrator.errors import StoreUnavailable
from orchestrator.ledger import WorkerLedger
from orchestrator.records import CallState
from orchestrator.store import RunRef
from workers.bench import Bench

_WORKER_PID: Final = os.getpid()
_PR_SET_PDEATHSIG: Final = 1

log = structlog.get_logger(__name__)


async def take_turn(ledger: WorkerLedger, bench: Bench, ref: RunRef, call_id: str) -> bool:
    """Whether the call may be claimed now. If not, it is put back for a while. Raises ``Gone``."""
    if not any(bench.slots(name) for name in bench.tools):
        return True
    call = (await ledger.find(ref, call_id)).call
    if call.state is not CallState.DISPATCHED:
        return True  # the claim will say what is wrong
    if await keep_slot(ledger, bench, call.name, call_id):
        return True
    reason = f"Waits for its turn: {call.name} may run {bench.slots(call.name)} times at once."
    await ledger.change(ref, PostponeCall(call_id, call.generation, reason))
    log.info("call.postponed", tool=call.name)
    return False


async def keep_slot(ledger: WorkerLedger, bench: Bench, tool: str, call_id: str) -> bool:
    """Take or keep a slot of the tool, if it has a limit. False: all are taken."""
    slots = bench.slots(tool)
    if slots is None:
        return True
    return await ledger.take_slot(tool, f"{bench.worker} {call_id}", slots, bench.lease_ms)


async def give_back(ledger: WorkerLedger, bench: Bench, tool: str, call_id: str) -> None:
    """The execution is over. With the store away, the slot runs out."""
    if bench.slots(tool) is None:
        return
    with suppress(StoreUnavailable):
        await ledger.free_slot(tool, f"{bench.worker} {call_id}")


def end_with_worker() -> None:
    """End this child when its worker dies: nobody would keep its slot. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != _WORKER_PID:
        os.kill(os.getpid(), signal.SIGKILL)
