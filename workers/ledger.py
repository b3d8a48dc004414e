"""What a worker process tells the ledger about itself and about the calls that it has.

Whoever runs a tool (a forked child, or a task on another thread's event loop) claims and answers;
this side keeps the lease alive, so that a tool cannot block its own heartbeat, and has the last
word when the tool ends without an answer. Synchronous outside, since RQ's worker is; one event loop
inside, never shared with the tools.
"""

import asyncio
import os
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeVar

import structlog

from orchestrator.commands import CallLost, CallResult
from orchestrator.errors import Gone, NotNow, StoreMismatch, StoreUnavailable
from orchestrator.ledger import CallCommand, WorkerLedger
from orchestrator.records import CallState, ToolCall
from orchestrator.store import Presence, RunRef
from workers.attempt import timed_out
from workers.bench import Bench
from workers.loop import OneThreadLoop
from workers.slots import give_back, keep_slot

ANNOUNCE_S: Final = 5
ABSENT_AFTER_MS: Final = 15_000

MISSES: Final = 2
"""A call must be found gone so often in a row: a child that has just answered may still leave."""

T = TypeVar("T")
log = structlog.get_logger(__name__)


class Left(StrEnum):
    """What an execution has left to do when it ended."""

    NOTHING = "nothing"
    UNANSWERED = "unanswered"
    """It had claimed the call; it was answered in its place."""
    UNCLAIMED = "unclaimed"
    """The call is still to be done (or the store is away, and nobody knows)."""


Call = tuple[RunRef, str]
"""A run, and the id of one of its calls."""


@dataclass(slots=True)
class Held:
    """A call that this worker has claimed. ``misses``: how often in a row it was found gone."""

    call: ToolCall
    kill_at: float
    misses: int = 0


class Ledger:
    """The worker's side of its calls. Each method survives the store's absence. ``refusal``: why
    the store does not want this worker, as soon as it has said so.
    """

    def __init__(self, bench: Bench, queue: str) -> None:
        self.refusal: str | None = None
        self._bench = bench
        self._specs = [tool.spec for tool in bench.tools.values()]
        info = {"queue": queue, "host": socket.gethostname(), "pid": str(os.getpid())}
        self._presence = Presence("worker", bench.worker, info)
        self._runner = asyncio.Runner(loop_factory=OneThreadLoop)
        self._calls: WorkerLedger | None = None
        self._announce_at = 0.0
        self._held: dict[str, Held] = {}
        self._unclaimed: dict[str, float] = {}

    def announce(self) -> None:
        """Say that this worker is alive, and which tools it serves, if it is time to."""
        if time.monotonic() < self._announce_at:
            return
        self._announce_at = time.monotonic() + ANNOUNCE_S

        retention_s = self._bench.settings.tool_retention_s
        self._ask(
            lambda ledger: ledger.announce(
                self._presence, ABSENT_AFTER_MS, self._specs, retention_s
            )
        )

    def keep(self, *calls: Call) -> set[str]:
        """Renew the leases of the calls that tools have; returns the ids of those to end, since
        they are not this worker's any more (cancelled, expired, lost).
        """

        async def keep_all(ledger: WorkerLedger) -> set[str]:
            kept = await asyncio.gather(*(self._keep(ledger, *call) for call in calls))
            return {call[1] for call, is_kept in zip(calls, kept, strict=True) if not is_kept}

        return self._ask(keep_all) or set()

    def is_overdue(self, call_id: str) -> bool:
        """Whether the call's tool has outlived its time, the clean-up included."""
        held = self._held.get(call_id)
        return held is not None and time.monotonic() >= held.kill_at

    def is_stuck(self, call_id: str) -> bool:
        """Whether the call could have been claimed for the time of a lease, and was not: a child
        may have inherited a lock that nobody will ever release.
        """
        since = self._unclaimed.get(call_id, float("inf"))
        patience_s = self._bench.settings.call_lease_s
        return call_id not in self._held and time.monotonic() >= since + patience_s

    def cleanup_s(self, call_id: str) -> float:
        """How long the call's tool may take to end once it is stopped."""
        held = self._held.get(call_id)
        return self._bench.cleanup_s(held.call.name if held else None)

    def settle(self, call: Call, how: str) -> Left:
        """See to a call whose tool has ended, ``how`` says in which way.

        Where it left no answer one is given in its place: timed out, or lost, and then the author's
        declaration decides what comes. With the store away nothing is written, and the lease runs
        out.
        """
        self.forget(call[1])
        left = self._ask(lambda ledger: self._conclude(ledger, *call, how))
        return left or Left.UNCLAIMED

    def forget(self, call_id: str) -> None:
        """The call has its answer."""
        self._held.pop(call_id, None)
        self._unclaimed.pop(call_id, None)

    def close(self) -> None:
        """Say that this worker ends."""
        if self._calls is not None:
            self._ask(lambda ledger: ledger.leave(self._bench.worker))
            self._ask(lambda ledger: ledger.close())
        self._runner.close()

    async def _keep(self, ledger: WorkerLedger, ref: RunRef, call_id: str) -> bool:
        """Renew the lease, once there is one. False: there is no such call any more."""
        held = self._held.get(call_id)
        if held is None:
            is_there, held = await self._find(ledger, ref, call_id)
            if held is None:  # not claimed yet, if there still is such a call
                self._unclaimed.setdefault(call_id, time.monotonic())
                return is_there
        call = held.call
        cap_ms = (call.deadline_ms or 0) + round(self._bench.grace_s(call.name) * 1000)
        is_kept = await ledger.renew(ref, call, self._bench.lease_ms, cap_ms)
        await keep_slot(ledger, self._bench, call.name, call.id)
        held.misses = 0 if is_kept else held.misses + 1
        return held.misses < MISSES

    async def _find(
        self, ledger: WorkerLedger, ref: RunRef, call_id: str
    ) -> tuple[bool, Held | None]:
        """Whether there is such a call, and the hold on it if this worker has claimed it."""
        try:
            seen = await ledger.find(ref, call_id)
        except Gone:
            return False, None
        call = seen.call
        if call.worker != self._bench.worker:
            return True, None
        # Over already, perhaps: then its lease cannot be renewed.
        left_s = ((call.deadline_ms or 0) - seen.now_ms) / 1000
        patience_s = self._bench.patience_s(call.name)
        held = self._held[call_id] = Held(call, time.monotonic() + left_s + patience_s)
        return True, held

    async def _conclude(self, ledger: WorkerLedger, ref: RunRef, call_id: str, how: str) -> Left:
        with suppress(Gone, NotNow):
            seen = await ledger.find(ref, call_id)
            call = seen.call
            if call.state is CallState.DISPATCHED:
                return Left.UNCLAIMED
            if self._is_ours(call):
                await give_back(ledger, self._bench, call.name, call_id)
                await ledger.change(ref, _conclusion(call, seen.now_ms, how))
                log.warning("call.unanswered", tool_call_id=call_id, run_id=ref.run_id, how=how)
                return Left.UNANSWERED
        return Left.NOTHING

    def _is_ours(self, call: ToolCall) -> bool:
        return call.state is CallState.STARTED and call.worker == self._bench.worker

    def _ask(self, act: Callable[[WorkerLedger], Awaitable[T]]) -> T | None:
        """Ask the ledger; ``None`` when it is away.

        Twice, since the first may only find out that a connection has died in the meantime.
        """

        async def asked() -> T:
            if self._calls is None:
                self._calls = await self._bench.open_ledger(self._bench.settings)
            return await act(self._calls)

        for is_last in (False, True):
            try:
                return self._runner.run(asked())
            except StoreMismatch as error:
                self.refusal = str(error)
                return None
            except StoreUnavailable as error:
                if is_last:
                    log.warning("store.unavailable", reason=str(error))
        return None


def _conclusion(call: ToolCall, now_ms: int, how: str) -> CallCommand:
    deadline_ms, started_ms = call.deadline_ms or 0, call.started_ms or 0
    if now_ms < deadline_ms:
        reason = f"The tool ended without an answer: {how}."
        return CallLost(call.id, call.generation, reason)
    answer = timed_out((deadline_ms - started_ms) / 1000)
    return CallResult(call.id, call.generation, answer.outcome, answer.text, answer.error)
