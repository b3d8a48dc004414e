"""What workers do with a job: claim the call, run its tool, bring its answer.

``execute`` is the one function that jobs name, ``execute_inline`` does the same on a shared event
loop. They return nothing to RQ and raise nothing of the tool's: what counts is written to the
ledger, under the generation of the claim.
"""

import asyncio
import secrets
import signal
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import structlog

from orchestrator.commands import CallResult, ClaimCall, RetryCall
from orchestrator.current import CURRENT, CurrentCall
from orchestrator.errors import Gone, NotNow, StoreUnavailable
from orchestrator.ledger import CallCommand, WorkerLedger
from orchestrator.records import ToolCall
from orchestrator.store import RunRef
from workers.attempt import Answer, attempt, attempt_inline, failed
from workers.bench import BENCH, Bench
from workers.loop import OneThreadLoop
from workers.progress import Tell, tell_from_child, tell_from_loop
from workers.slots import end_with_worker, give_back, take_turn

_PAUSE_S: Final = 0.5

_TURNS: Final = WeakValueDictionary[str, asyncio.Lock]()

T = TypeVar("T")
log = structlog.get_logger(__name__)


def execute(thread_id: str, run_id: str, call_id: str) -> None:
    """Do the call, if it is still to be done; else nothing."""
    bench = BENCH.get()
    ref = RunRef(thread_id, run_id)
    ids = structlog.contextvars.bound_contextvars(
        thread_id=thread_id, run_id=run_id, tool_call_id=call_id
    )
    with ids, asyncio.Runner(loop_factory=OneThreadLoop) as runner:
        ledger = bench.connect_ledger(bench.settings)
        call = runner.run(_claim(ledger, ref, call_id, bench))
        if call is not None:
            tool, limit_s = bench.tools.get(call.name), _limit_s(call)
            give_up_at = time.monotonic() + limit_s + bench.grace_s(call.name)
            tell = tell_from_child(lambda: bench.connect_ledger(bench.settings), ref, call)
            CURRENT.set(_current(ref, call, tell))
            # Outside of our loop: sync tools may block, async ones get a loop of their own.
            if bench.slots(call.name) is not None:
                end_with_worker()
            memory_mb = bench.settings.worker_memory_mb
            answer = (
                attempt(tool, call.arguments, limit_s, memory_mb) if tool else _not_loaded(call)
            )
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # too late to stop: there is an answer
            runner.run(_report(ledger, ref, call, answer, give_up_at - time.monotonic()))
            runner.run(give_back(ledger, bench, call.name, call.id))
        runner.run(ledger.close())


async def execute_inline(bench: Bench, ledger: WorkerLedger, ref: RunRef, call_id: str) -> None:
    """As ``execute``, among others. Cancelling it stops the tool, and leaves its call unanswered;
    once there is an answer, it is brought.

    The calls of one run take turns at its documents, where many at once would only be in each
    other's way.
    """
    ids = structlog.contextvars.bound_contextvars(
        thread_id=ref.thread_id, run_id=ref.run_id, tool_call_id=call_id
    )
    turn = _TURNS.setdefault(ref.run_id, asyncio.Lock())
    with ids:
        async with turn:
            call = await _claim(ledger, ref, call_id, bench)
        if call is not None:
            tool, limit_s = bench.tools.get(call.name), _limit_s(call)
            give_up_at = time.monotonic() + limit_s + bench.grace_s(call.name)
            CURRENT.set(_current(ref, call, tell_from_loop(ledger, turn, ref, call)))
            try:
                answer = (
                    await attempt_inline(tool, call.arguments, limit_s)
                    if tool
                    else _not_loaded(call)
                )

                async def bring() -> None:
                    async with turn:
                        await _report(ledger, ref, call, answer, give_up_at - time.monotonic())

                await _wholly(bring())
            finally:
                await give_back(ledger, bench, call.name, call.id)


async def _claim(ledger: WorkerLedger, ref: RunRef, call_id: str, bench: Bench) -> ToolCall | None:
    """The call under this worker's generation. ``None``: somebody else's, over, gone, or its
    turn has not come.
    """
    command = ClaimCall(call_id, bench.worker, bench.lease_ms, nonce=secrets.token_hex(8))
    try:
        if not await _insist(lambda: take_turn(ledger, bench, ref, call_id)):
            return None
        call = await _insist(lambda: ledger.change(ref, command))
    except (NotNow, Gone) as error:
        log.info("call.not_claimed", reason=error.code)
        return None
    log.info("call.claimed")
    return call


def _limit_s(call: ToolCall) -> float:
    """The time that the claim gave, in seconds."""
    return ((call.deadline_ms or 0) - (call.started_ms or 0)) / 1000


def _current(ref: RunRef, call: ToolCall, tell: Tell) -> CurrentCall:
    return CurrentCall(
        thread_id=ref.thread_id,
        run_id=ref.run_id,
        call_id=call.id,
        tool=call.name,
        attempt=call.attempts,
        max_attempts=call.max_attempts,
        ends_at=time.monotonic() + _limit_s(call),
        tell=tell,
    )


def _not_loaded(call: ToolCall) -> Answer:
    message = f"This worker has no tool named {call.name}: it was started with other tools."
    return failed("tool_not_loaded", message)


async def _report(
    ledger: WorkerLedger, ref: RunRef, call: ToolCall, answer: Answer, patience_s: float
) -> None:
    async def report() -> None:
        drift = await _drift(ledger, call.name, answer)
        await ledger.change(ref, _command(call, answer, drift))

    try:
        await _insist(report, patience_s)
    except (NotNow, Gone) as error:
        log.info("call.not_wanted", reason=error.code)
    else:
        log.info("call.answered", outcome=answer.outcome)


async def _wholly(act: Coroutine[Any, Any, None]) -> None:
    """Do it to its end, also if this task is cancelled meanwhile."""
    task = asyncio.create_task(act)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task


def _command(call: ToolCall, answer: Answer, drift: str | None) -> CallCommand:
    text, error = answer.text, answer.error
    if answer.retry is not None:
        after_ms = round(answer.retry.after_s * 1000) or None
        return RetryCall(call.id, call.generation, text, error or "", after_ms)
    return CallResult(call.id, call.generation, answer.outcome, text, error, answer.full, drift)


async def _drift(ledger: WorkerLedger, tool: str, answer: Answer) -> str | None:
    """How the output's shape differs from that of the tool's last output, if it does."""
    now = answer.shape
    before = None if now is None else await ledger.swap_shape(tool, now)
    if before in (None, now):
        return None
    log.warning("tool.output_drifted", tool=tool, before=before, now=now)
    return f"{before} became {now}"


async def _insist(act: Callable[[], Awaitable[T]], patience_s: float | None = None) -> T:
    """Repeat while the store is away. Without a patience of its own: until RQ's time limit."""
    async with asyncio.timeout(patience_s):
        while True:
            try:
                return await act()
            except StoreUnavailable as error:
                log.warning("store.unavailable", reason=str(error))
                await asyncio.sleep(_PAUSE_S)
