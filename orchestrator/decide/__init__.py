"""All rules of a run's life, as one pure function.

``decide(aggregate, command, now_ms)`` says what a command does to an aggregate, or raises why it
does nothing. It reads no clock and touches no store; what it returns is true once it is committed.
"""

from typing import assert_never

from orchestrator import commands as c
from orchestrator.decide import approvals, calls, endings, repeats, threads, turns
from orchestrator.decide.draft import Draft
from orchestrator.decisions import Decision
from orchestrator.records import Aggregate

__all__ = ["decide"]


_OnCalls = (
    c.ClaimCall
    | c.CallResult
    | c.CallProgress
    | c.RetryCall
    | c.SendAgain
    | c.PostponeCall
    | c.CheckWait
    | c.CallLost
    | c.SubmitOutputs
    | c.AnswerApprovals
    | c.TimeOutApproval
    | c.ResolveCall
    | c.RequeueCall
)


def decide(aggregate: Aggregate, command: c.Command, now_ms: int) -> Decision:
    """The decision on one command. Raises ``BadRequest``, ``NotNow`` or ``Gone``; then nothing
    changes. A command that finds its work done already returns the aggregate as it is.
    """
    draft = Draft(aggregate, now_ms)
    _apply(draft, command)
    return draft.decision()


def _apply(draft: Draft, command: c.Command) -> None:  # noqa: PLR0912 - an arm per command
    match command:
        case c.AddMessages():
            threads.add_messages(draft, command)
        case c.ImportMessage():
            threads.import_message(draft, command)
        case c.DeleteThread():
            threads.delete_thread(draft)
        case c.CreateRun():
            threads.create_run(draft, command)
        case c.StartTurn():
            turns.start_turn(draft, command)
        case c.ApplyGuards():
            turns.apply_guards(draft, command)
        case c.OpenMessage():
            turns.open_message(draft, command)
        case c.OpenCalls():
            turns.open_calls(draft, command)
        case c.Compact():
            turns.compact(draft, command)
        case c.TurnResult():
            turns.turn_result(draft, command)
        case c.TurnFailed():
            turns.turn_failed(draft, command)
        case c.RunOut():
            turns.run_out(draft, command)
        case c.RequeueTurn():
            turns.requeue_turn(draft, command)
        case c.ModifyRun():
            draft.set_run(metadata=command.metadata)
        case c.Cancel():
            endings.cancel(draft, command)
        case c.ConfirmCancel():
            endings.confirm_cancel(draft)
        case c.Expire():
            endings.expire(draft)
        case _:
            _apply_to_calls(draft, command)


def _apply_to_calls(draft: Draft, command: _OnCalls) -> None:  # noqa: PLR0912 - as above
    match command:
        case c.ClaimCall():
            calls.claim_call(draft, command)
        case c.CallResult():
            calls.call_result(draft, command)
        case c.CallProgress():
            calls.call_progress(draft, command)
        case c.RetryCall():
            repeats.retry_call(draft, command)
        case c.SendAgain():
            repeats.send_again(draft, command)
        case c.PostponeCall():
            repeats.postpone_call(draft, command)
        case c.CheckWait():
            repeats.check_wait(draft, command)
        case c.CallLost():
            repeats.call_lost(draft, command)
        case c.SubmitOutputs():
            calls.submit_outputs(draft, command)
        case c.AnswerApprovals():
            approvals.answer_approvals(draft, command)
        case c.TimeOutApproval():
            approvals.time_out_approval(draft, command)
        case c.ResolveCall():
            calls.resolve_call(draft, command)
        case c.RequeueCall():
            repeats.requeue_call(draft, command)
        case _:
            assert_never(command)
