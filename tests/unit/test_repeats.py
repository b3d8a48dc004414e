"""Calls that are started again, and calls that nobody starts."""

import json

import pytest

from orchestrator.decisions import EventType, SendCall, StopCall, TimerKind
from orchestrator.errors import CallNotOpen
from orchestrator.records import CallState
from orchestrator.states import RunStatus
from tests.unit.play import Play, a_round


def pause_ms(play: Play) -> int:
    """How long the first call waits before its next attempt."""
    times = {key.kind: at_ms for (_, key), at_ms in play.world.timers.items()}
    return times[TimerKind.CALL_RETRY] - play.now_ms


def test_the_pause_between_attempts_doubles_and_no_two_calls_have_the_same() -> None:
    pauses = []
    for _ in range(2):
        play = a_round("look_up", "look_up")
        for call in play.calls:
            play.lose(play.claim(call))
        times = {k.call_id: at for (_, k), at in play.world.timers.items() if k.call_id}
        pauses.append([times[call.id] - play.now_ms for call in play.calls])
    assert pauses[0] == pauses[1]
    assert len(set(pauses[0])) == 2
    assert all(500 <= pause <= 625 for pause in pauses[0])
    play = a_round("look_up")
    play.lose(play.claim(play.calls[0]))
    play.lose(play.claim(play.send_again(play.calls[0])))
    assert 1_000 <= pause_ms(play) <= 1_250


def test_a_tool_may_ask_to_be_called_again_whatever_its_side_effects() -> None:
    play = a_round("charge")
    call = play.retry(play.claim(play.calls[0]), after_ms=7_000)
    assert (call.state, call.error, call.allowed_again) == (CallState.RETRYING, "Busy.", 1)
    assert play.events == [EventType.CALL_RETRYING]
    assert 7_000 <= pause_ms(play) <= 8_750
    call = play.finish(play.claim(play.send_again(call)))
    assert (call.state, call.attempts, call.error) == (CallState.SUCCEEDED, 2, None)


def test_a_call_that_has_to_wait_for_its_turn_is_not_counted_as_tried() -> None:
    play = a_round("charge")
    pauses = []
    for _ in range(20):
        play.postpone(play.calls[0], "Others are at it.")
        assert (play.calls[0].state, play.calls[0].error) == (
            CallState.RETRYING,
            "Others are at it.",
        )
        pauses.append(pause_ms(play))
        play.now_ms += pauses[-1]
        play.send_again(play.calls[0])
    call = play.finish(play.claim(play.calls[0]))
    assert (call.state, call.attempts, call.error) == (CallState.SUCCEEDED, 1, None)
    assert 500 <= pauses[0] < 625 < pauses[-1] <= 2_500


def test_only_a_call_that_nobody_has_can_be_postponed() -> None:
    play = a_round("charge")
    call = play.claim(play.calls[0])
    with pytest.raises(CallNotOpen):
        play.postpone(call, "Others are at it.")


@pytest.mark.parametrize(("name", "attempts"), [("look_up", 3), ("update", 2), ("charge", 2)])
def test_a_tool_that_asks_again_too_often_is_answered(name: str, attempts: int) -> None:
    play = a_round(name)
    for _ in range(attempts - 1):
        play.send_again(play.retry(play.claim(play.calls[0])))
    call = play.retry(play.claim(play.calls[0]))
    assert (call.state, call.attempts) == (CallState.FAILED, attempts)
    assert json.loads(play.outputs[call.id])["error"]["retryable"] is True
    assert play.status is RunStatus.QUEUED


def test_a_call_that_asked_again_and_is_then_lost_is_not_repeated_for_that() -> None:
    play = a_round("charge")
    call = play.send_again(play.retry(play.claim(play.calls[0])))
    assert play.lose(play.claim(call)).state is CallState.UNKNOWN


def test_a_retry_that_comes_too_late_is_kept_for_the_record() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.lose(call)
    late = play.retry(call)
    assert (late.state, len(late.late)) == (CallState.RETRYING, 1)


def test_a_pause_that_is_over_means_nothing_to_a_call_that_went_on() -> None:
    play = a_round("look_up")
    call = play.lose(play.claim(play.calls[0]))
    play.send_again(call)
    with pytest.raises(CallNotOpen):
        play.send_again(call)


# -- waiting for a worker ------------------------------------------------------------------------


def test_a_call_that_nobody_claims_is_sent_again_in_case_the_queue_has_lost_it() -> None:
    play = a_round("look_up")
    play.later(15_000)
    call = play.check_wait(play.calls[0], "tools")
    assert play.effects(SendCall) == [SendCall(call.id, "tools", play.run.deadline_ms, True)]
    assert play.events == []
    play.later(600_000 - 15_001)
    assert play.check_wait(call, "tools").state is CallState.DISPATCHED


def test_a_call_that_no_worker_serves_is_answered_when_the_patience_is_over() -> None:
    play = a_round("look_up")
    play.later(59_999)
    assert play.check_wait(play.calls[0], "others").state is CallState.DISPATCHED
    play.later(1)
    call = play.check_wait(play.calls[0])
    assert call.state is CallState.FAILED
    assert json.loads(play.outputs[call.id])["error"]["type"] == "no_worker"
    assert play.effects(StopCall) == [StopCall(call.id, "tools", None)]
    assert play.status is RunStatus.QUEUED


def test_a_call_that_was_claimed_in_time_is_not_looked_after() -> None:
    play = a_round("look_up")
    waiting = play.calls[0]
    play.claim(waiting)
    with pytest.raises(CallNotOpen):
        play.check_wait(waiting)
