"""Calls that may not start before somebody has agreed to them.

Whoever answers first is right: an operator, a client, or the timer that rejects what nobody has
answered. An approved call is dispatched like any other, and is not asked about again.
"""

from orchestrator.commands import AnswerApprovals, Approval, TimeOutApproval
from orchestrator.decide.calls import (
    clear_timer,
    dispatch,
    error_text,
    find_call,
    finish_round,
    settle,
)
from orchestrator.decide.draft import Draft
from orchestrator.decisions import EventType
from orchestrator.errors import CallNotOpen
from orchestrator.records import CallState, ToolCall


def answer_approvals(draft: Draft, command: AnswerApprovals) -> None:
    """Send the approved calls to their workers, and tell the model of the others."""
    for approval in command.approvals:
        call = _waiting(draft, approval.call_id)
        if approval.is_approved:
            _approve(draft, call, approval)
        else:
            text = f"This call was rejected: {approval.reason or 'no reason was given'}"
            _reject(draft, call, "rejected", text)
    finish_round(draft)


def time_out_approval(draft: Draft, command: TimeOutApproval) -> None:
    """Reject a call that nobody has answered."""
    call = _waiting(draft, command.call_id)
    waited_s = (draft.now_ms - call.created_ms) / 1000
    text = f"Nobody approved this call within {waited_s:.0f} seconds, so it was not made."
    _reject(draft, call, "approval_timed_out", text)
    finish_round(draft)


def _waiting(draft: Draft, call_id: str) -> ToolCall:
    call = find_call(draft, call_id)
    if call.state is not CallState.AWAITING_APPROVAL:
        raise CallNotOpen(call.id, call.state)
    return call


def _approve(draft: Draft, call: ToolCall, approval: Approval) -> None:
    clear_timer(draft, call)
    if approval.arguments is not None:
        asked = call.arguments if call.asked_arguments is None else call.asked_arguments
        call = call.but(arguments=approval.arguments, asked_arguments=asked)
    call = call.but(approved_ms=draft.now_ms)
    draft.put_call(call, EventType.CALL_APPROVED)
    dispatch(draft, call)


def _reject(draft: Draft, call: ToolCall, kind: str, text: str) -> None:
    settle(draft, call, CallState.FAILED, error_text(kind, text), error=text)
