"""How runs end. ``close`` is the only way into a final status.

It leaves nothing open: calls are stopped and answered, steps end with the run, timers are cleared,
the thread is free, all in the step that ends the run.
"""

from typing import Final

from orchestrator.commands import Cancel
from orchestrator.decide import calls, steps, waiting
from orchestrator.decide.draft import Draft
from orchestrator.decisions import ClearTimer, EventType, RetireLog, TimerKey, TimerKind
from orchestrator.errors import CannotCancel
from orchestrator.projection import public_status
from orchestrator.records import IncompleteReason, LastError, StepStatus
from orchestrator.states import RunStatus, Trigger, next_status

_WATCHDOG: Final = TimerKey(TimerKind.CANCEL_WATCHDOG)

_STEP_ENDS: Final = {
    RunStatus.CANCELLED: (StepStatus.CANCELLED, "cancelled_ms", EventType.STEP_CANCELLED),
    RunStatus.EXPIRED: (StepStatus.EXPIRED, "expired_ms", EventType.STEP_EXPIRED),
    RunStatus.FAILED: (StepStatus.FAILED, "failed_ms", EventType.STEP_FAILED),
}
"""How a step that is still open ends with its run; all else completes it."""

_RUN_TIMES: Final = {
    RunStatus.CANCELLED: "cancelled_ms",
    RunStatus.FAILED: "failed_ms",
    RunStatus.COMPLETED: "completed_ms",
    RunStatus.INCOMPLETE: "completed_ms",
}
"""Which time a final status sets. An expired run ended at its deadline and has none of its own."""


def cancel(draft: Draft, command: Cancel) -> None:
    """Stop the run: at once where nobody is talking to the model, else ask the engine to let go."""
    run = draft.run
    if run.is_final or run.status is RunStatus.CANCELLING:
        raise CannotCancel(run.id, run.status)
    if run.status is RunStatus.IN_PROGRESS:
        draft.move(Trigger.CANCEL)
        draft.set_timer(_WATCHDOG, draft.now_ms + command.watchdog_ms)
    else:
        close(draft, Trigger.CANCEL)


def cancel_now(draft: Draft) -> None:
    """End the run without waiting for the engine, whose reply will be refused."""
    if draft.run.status is RunStatus.IN_PROGRESS:
        draft.move(Trigger.CANCEL)
    is_cancelling = draft.run.status is RunStatus.CANCELLING
    close(draft, Trigger.CONFIRM_CANCEL if is_cancelling else Trigger.CANCEL)


def confirm_cancel(draft: Draft) -> None:
    """The engine has let go, or is gone."""
    if draft.run.status is not RunStatus.CANCELLING:
        raise CannotCancel(draft.run.id, public_status(draft.run, draft.aggregate.calls))
    close(draft, Trigger.CONFIRM_CANCEL)


def expire(draft: Draft) -> None:
    """End a run whose deadline has come; any other is left alone."""
    if not draft.run.is_final and draft.now_ms >= draft.run.deadline_ms:
        close(draft, Trigger.EXPIRE)


def fail(draft: Draft, error: LastError) -> None:
    """End the run with the reason that clients will read."""
    close(draft, Trigger.FAIL, last_error=error)


def run_out(draft: Draft, reason: IncompleteReason, message: str) -> None:
    """End the run at a token limit, with the numbers in words."""
    close(draft, Trigger.RUN_OUT, incomplete_reason=reason, incomplete_message=message)


def close(
    draft: Draft, trigger: Trigger, *, last_error: LastError | None = None, **changes: object
) -> None:
    """End the run along this edge and close what it left open."""
    status = next_status(draft.run.status, trigger)
    calls.give_up(draft, f"run_{status}", f"The run ended ({status}) before this call did.")
    steps.cut_message(draft, f"run_{status}")
    _close_steps(draft, status, last_error)
    draft.ask(
        ClearTimer(TimerKey(TimerKind.DEADLINE)),
        ClearTimer(_WATCHDOG),
        ClearTimer(TimerKey(TimerKind.TURN_LEASE, draft.run.generation)),
        RetireLog(),
    )
    if time_field := _RUN_TIMES.get(status):
        changes[time_field] = draft.now_ms
    waiting.release(draft, status)
    draft.move(trigger, engine=None, last_error=last_error, **changes)


def _close_steps(draft: Draft, status: RunStatus, last_error: LastError | None) -> None:
    completed = (StepStatus.COMPLETED, "completed_ms", EventType.STEP_COMPLETED)
    ended, time_field, event = _STEP_ENDS.get(status, completed)
    if last_error and last_error.code == "invalid_prompt":  # not a code that steps may have
        last_error = last_error.but(code="server_error")
    for step in draft.aggregate.steps:
        if step.status is StepStatus.IN_PROGRESS:
            changes = {"status": ended, time_field: draft.now_ms, "last_error": last_error}
            draft.put_step(step.but(**changes), event)
