"""Calls that are started again: after a loss, at the tool's own wish, at an operator's.

Between two attempts lies a pause that doubles, with a jitter that is the call's own, so that calls
which failed together do not come back together.
"""

from typing import Final
from zlib import crc32

from orchestrator.commands import (
    CallLost,
    CheckWait,
    PostponeCall,
    RequeueCall,
    RetryCall,
    SendAgain,
)
from orchestrator.decide.calls import (
    LOOK_AFTER_MS,
    clear_timer,
    dispatch,
    error_text,
    find_call,
    finish_round,
    held_call,
    is_held,
    record_late,
    settle,
    stop,
    timer,
)
from orchestrator.decide.draft import Draft
from orchestrator.decisions import EventType, SendCall, TimerKind
from orchestrator.errors import CallNotOpen
from orchestrator.records import CallState, Executor, ToolCall

FIRST_PAUSE_MS: Final = 500
MAX_PAUSE_MS: Final = 30_000

MAX_POSTPONED_MS: Final = 2_000
"""A call that waits for its turn asks again at least so often."""


def call_lost(draft: Draft, command: CallLost) -> None:
    """Send the call again if its author said that this is harmless; else answer in its place."""
    call = held_call(draft, command.call_id, command.generation)
    if call.side_effects == "once":
        _leave_unknown(draft, call, command.reason)
    elif call.attempts < call.max_attempts:
        _pause(draft, call, EventType.CALL_LOST, command.reason, None)
    else:
        text = f"The tool was started {call.attempts} times and never finished: {command.reason}"
        settle(draft, call, CallState.FAILED, error_text("lost", text), error=command.reason)
    finish_round(draft)


def retry_call(draft: Draft, command: RetryCall) -> None:
    """Start the call again after a pause, or answer it if it was started often enough."""
    call = find_call(draft, command.call_id)
    if not is_held(call, command.generation):
        record_late(draft, call, command)
        return
    call = call.but(answered=call.generation)
    if call.attempts < call.max_attempts:
        if call.side_effects == "once":
            call = call.but(allowed_again=call.allowed_again + 1)
        _pause(draft, call, EventType.CALL_RETRYING, command.error, command.after_ms)
    else:
        settle(draft, call, CallState.FAILED, command.text, error=command.error)
        finish_round(draft)


def send_again(draft: Draft, command: SendAgain) -> None:
    """The pause is over."""
    call = _waiting(draft, command.call_id, command.generation, CallState.RETRYING)
    clear_timer(draft, call)
    dispatch(draft, call)


def postpone_call(draft: Draft, command: PostponeCall) -> None:
    """Let the call wait a little for its turn; that is no attempt. It asks less often later on,
    since each time is told in the log.
    """
    call = _waiting(draft, command.call_id, command.generation, CallState.DISPATCHED)
    waited_ms = draft.now_ms - call.created_ms
    pause_ms = max(FIRST_PAUSE_MS, min(waited_ms // 4, MAX_POSTPONED_MS))
    _pause(draft, call, EventType.CALL_RETRYING, command.reason, pause_ms)


def check_wait(draft: Draft, command: CheckWait) -> None:
    """See to a call that no worker has claimed yet: it is answered if there has been no worker for
    its queue for too long, else sent again, should the queue have lost it.
    """
    call = _waiting(draft, command.call_id, command.generation, CallState.DISPATCHED)
    waited_ms = draft.now_ms - (call.dispatched_ms or 0)
    if call.queue not in command.served and waited_ms >= command.patience_ms:
        text = f"No worker has served this tool for {waited_ms / 1000:.0f} seconds."
        stop(draft, call)
        settle(draft, call, CallState.FAILED, error_text("no_worker", text), error=text)
        finish_round(draft)
        return
    draft.set_run()
    draft.ask(SendCall(call.id, call.queue or "", draft.run.deadline_ms, is_repeat=True))
    draft.set_timer(timer(TimerKind.CALL_WAIT, call), draft.now_ms + LOOK_AFTER_MS)


def requeue_call(draft: Draft, command: RequeueCall) -> None:
    """Send an open call of a worker again, and stop whoever is at it; his result will be late. One
    that waits to be approved has not been sent.
    """
    call = find_call(draft, command.call_id)
    is_held_back = call.state is CallState.AWAITING_APPROVAL
    if call.is_settled or is_held_back or call.executor is not Executor.WORKER:
        raise CallNotOpen(call.id, call.state)
    stop(draft, call)
    clear_timer(draft, call)
    dispatch(draft, call.but(allowed_again=call.allowed_again + 1))


def _waiting(draft: Draft, call_id: str, generation: int, state: CallState) -> ToolCall:
    call = find_call(draft, call_id)
    if call.state is not state or call.generation != generation:
        raise CallNotOpen(call.id, call.state)
    return call


def _pause(
    draft: Draft, call: ToolCall, event: EventType, reason: str, after_ms: int | None
) -> None:
    clear_timer(draft, call)
    pause_ms = after_ms or min(FIRST_PAUSE_MS * 2 ** (call.attempts - 1), MAX_PAUSE_MS)
    jitter = crc32(f"{call.id} {call.attempts}".encode()) % 256 / 1024  # up to a quarter
    call = call.but(
        state=CallState.RETRYING, worker=None, started_ms=None, deadline_ms=None, error=reason
    )
    draft.put_call(call, event, detail=reason)
    retry = timer(TimerKind.CALL_RETRY, call)
    draft.set_timer(retry, draft.now_ms + round(pause_ms * (1 + jitter)))


def _leave_unknown(draft: Draft, call: ToolCall, reason: str) -> None:
    if call.on_unknown == "hold":
        clear_timer(draft, call)
        held = call.but(state=CallState.UNKNOWN, error=reason)
        draft.put_call(held, EventType.CALL_LOST, detail=reason)
        return
    text = (
        "The worker died while the tool ran. It may or may not have taken effect, and it was not"
        " started again, because doing it twice could do harm."
    )
    settle(draft, call, CallState.UNKNOWN, error_text("unknown_outcome", text), error=reason)
