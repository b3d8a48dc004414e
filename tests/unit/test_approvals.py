"""Calls that may not start before somebody has agreed to them."""

import json

import pytest

from orchestrator.commands import AnswerApprovals, Approval, TimeOutApproval
from orchestrator.conversation import Said, grouped
from orchestrator.decisions import EventType, SendCall, TimerKind
from orchestrator.errors import CallNotOpen, NotAcceptingOutputs, OutputsMismatch
from orchestrator.projection import required_calls
from orchestrator.records import CallState, ToolSpec
from orchestrator.states import RunStatus
from tests.unit.play import Play, a_round, a_turn


def error_of(play: Play) -> dict[str, object]:
    """What the model reads of the first call."""
    error: dict[str, object] = json.loads(play.outputs[play.calls[0].id])["error"]
    return error


def approval_times(play: Play) -> list[int]:
    """When the timers of approvals are due."""
    timers = play.world.timers.items()
    return [at_ms for (_, key), at_ms in timers if key.kind is TimerKind.CALL_APPROVAL]


def test_a_call_that_needs_it_waits_for_approval_and_no_worker_can_have_it() -> None:
    play = a_round("refund")
    (call,) = play.calls
    assert (call.state, call.approve_by_ms) == (CallState.AWAITING_APPROVAL, 61_000)
    assert approval_times(play) == [61_000]
    assert EventType.CALL_AWAITING_APPROVAL in play.events
    assert (play.effects(SendCall), play.public) == ([], RunStatus.REQUIRES_ACTION)
    with pytest.raises(CallNotOpen, match="awaiting_approval"):
        play.claim(call)
    with pytest.raises(CallNotOpen, match="awaiting_approval"):
        play.requeue_call(call)


def test_an_approved_call_goes_to_its_workers_like_any_other() -> None:
    play = a_round("refund")
    play.later(2_000)
    call = play.approve(play.calls[0])
    assert play.events == [EventType.CALL_APPROVED, EventType.CALL_DISPATCHED]
    assert (call.approved_ms, approval_times(play), len(play.effects(SendCall))) == (3_000, [], 1)
    assert play.public is RunStatus.IN_PROGRESS
    assert play.finish(play.claim(call)).state is CallState.SUCCEEDED
    assert play.status is RunStatus.QUEUED


def test_a_rejection_is_read_by_the_model_with_its_reason() -> None:
    play = a_round("refund")
    call = play.reject(play.calls[0], "The parcel has arrived.")
    assert (call.state, call.attempts, play.status) == (CallState.FAILED, 0, RunStatus.QUEUED)
    message = "This call was rejected: The parcel has arrived."
    assert error_of(play) == {"type": "rejected", "message": message, "retryable": False}
    play = a_round("refund")
    play.reject(play.calls[0])
    assert error_of(play)["message"] == "This call was rejected: no reason was given"


def test_a_call_that_nobody_answers_is_rejected_after_its_time() -> None:
    play = a_round("refund")
    play.later(60_000)
    play.ask(TimeOutApproval(play.calls[0].id))
    assert error_of(play)["type"] == "approval_timed_out"
    assert "within 60 seconds" in str(error_of(play)["message"])
    assert play.status is RunStatus.QUEUED


def test_an_approval_is_never_waited_for_beyond_the_run() -> None:
    play = a_turn(ttl_ms=10_000)
    play.reply("refund")
    assert play.calls[0].approve_by_ms == play.run.deadline_ms
    play.later(10_000)
    with pytest.raises(CallNotOpen):
        play.approve(play.calls[0])
    assert (play.status, play.calls[0].state) == (RunStatus.EXPIRED, CallState.CANCELLED)


@pytest.mark.parametrize("verb", ["approve", "reject", "time out"])
def test_only_the_first_answer_counts(verb: str) -> None:
    for first in (Play.approve, Play.reject):
        play = a_round("refund", "refund")
        call = first(play, play.calls[0])
        answers = AnswerApprovals((Approval(call.id, verb == "approve"),))
        with pytest.raises(CallNotOpen):
            play.ask(TimeOutApproval(call.id) if verb == "time out" else answers)
        assert play.call(call) == call


def test_of_several_answers_all_count_or_none() -> None:
    play = a_round("refund", "refund")
    first, second = play.calls
    for wrong in (first.id, "call_of_nobody"):
        with pytest.raises(Exception, match=wrong):
            play.ask(AnswerApprovals((Approval(first.id, True), Approval(wrong, True))))
        assert {call.state for call in play.calls} == {CallState.AWAITING_APPROVAL}
    play.ask(AnswerApprovals((Approval(first.id, False), Approval(second.id, True))))
    assert [call.state for call in play.calls] == [CallState.FAILED, CallState.DISPATCHED]


def test_outputs_are_no_way_around_an_approval() -> None:
    play = a_round("refund")
    with pytest.raises(NotAcceptingOutputs):
        play.submit({play.calls[0].id: "Done."})
    play = a_round("refund", "ask_user")
    with pytest.raises(OutputsMismatch):
        play.submit({call.id: "Done." for call in play.calls})


def test_approvals_are_shown_behind_the_clients_own_calls() -> None:
    play = a_round("refund", "ask_user")
    refund, question = play.calls
    assert [call.id for call in required_calls(play.run, play.calls)] == [question.id]
    play.submit({question.id: "Yes."})
    assert [call.id for call in required_calls(play.run, play.calls)] == [refund.id]
    told = play.decision.events[-1]
    assert (told.type, [x.id for x in told.calls]) == ("run.requires_action", [refund.id])


def test_approvals_are_shown_when_an_operator_answers_the_last_of_the_clients_calls() -> None:
    play = a_round("refund", "ask_user", "ask_user", "look_up")
    play.resolve(play.calls[3], "An operator's word.")
    assert EventType.RUN_REQUIRES_ACTION not in play.events
    play.resolve(play.calls[1], "An operator's word.")
    assert EventType.RUN_REQUIRES_ACTION not in play.events
    play.resolve(play.calls[2], "An operator's word.")
    assert play.events[-1] is EventType.RUN_REQUIRES_ACTION


def test_an_operator_may_answer_in_the_tools_place() -> None:
    play = a_round("refund")
    play.resolve(play.calls[0], "Refunded by hand.")
    assert (play.calls[0].state, approval_times(play)) == (CallState.SUCCEEDED, [])
    assert play.status is RunStatus.QUEUED


def test_a_cancelled_run_waits_for_no_approval() -> None:
    play = a_round("refund")
    play.cancel()
    assert (play.status, play.calls[0].state) == (RunStatus.CANCELLED, CallState.CANCELLED)
    assert play.world.timers == {}


def test_edited_arguments_are_what_the_tool_gets_and_what_the_model_remembers() -> None:
    play = a_round("refund", "refund")
    first, second = play.calls
    call = play.approve(first, '{"amount": 5}')
    play.approve(second)
    assert (call.arguments, call.asked_arguments) == ('{"amount": 5}', "{}")
    for each in (first, second):
        play.finish(play.claim(each))
    said = next(x for group in grouped(play.world.entries) for x in group.items if type(x) is Said)
    assert [one.arguments for one in said.calls] == ['{"amount": 5}', "{}"]


def test_a_lost_call_that_was_approved_is_not_asked_about_again() -> None:
    tool = ToolSpec(name="refund", approval="required", side_effects="none")
    play = a_turn()
    play.reply("refund", published={"refund": tool})
    call = play.lose(play.claim(play.approve(play.calls[0])))
    assert play.send_again(call).state is CallState.DISPATCHED
