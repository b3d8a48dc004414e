"""How runs end: cancel, expiry, and what an end leaves behind."""

import pytest

from orchestrator.decisions import EventType, SetTimer, StopCall, TimerKey, TimerKind
from orchestrator.errors import CallNotOpen, CannotCancel, NotAcceptingOutputs, StaleTurn
from orchestrator.records import CallState, LastError, StepStatus
from orchestrator.states import RunStatus
from tests.unit.play import (
    ACTIVE,
    ENDED,
    TTL_MS,
    TURN_LEASE_MS,
    WATCHDOG_MS,
    Play,
    a_cancelled_turn,
    a_round,
    a_run,
    a_turn,
)

ENDS_AT_ONCE = [name for name in ACTIVE if name not in {"in progress", "cancelling"}]

# -- cancel --------------------------------------------------------------------------------------


@pytest.mark.parametrize("situation", ENDS_AT_ONCE)
def test_cancel_ends_a_run_at_once_where_nobody_talks_to_the_model(situation: str) -> None:
    play = ACTIVE[situation]()
    play.later(7)
    play.cancel()
    assert (play.status, play.run.cancelled_ms) == (RunStatus.CANCELLED, play.now_ms)


def test_cancel_asks_the_engine_to_let_go_and_does_not_wait_for_ever() -> None:
    play = a_cancelled_turn()
    assert (play.status, play.run.cancelled_ms) == (RunStatus.CANCELLING, None)
    watchdog = TimerKey(TimerKind.CANCEL_WATCHDOG)
    assert play.effects(SetTimer) == [SetTimer(watchdog, play.now_ms + WATCHDOG_MS)]
    assert play.run.engine == "engine_1"
    play.confirm_cancel()
    run = play.run
    assert (run.status, run.engine) == (RunStatus.CANCELLED, None)


@pytest.mark.parametrize("situation", ["cancelling", *ENDED])
def test_what_is_over_or_being_cancelled_cannot_be_cancelled(situation: str) -> None:
    play = {**ACTIVE, **ENDED}[situation]()
    world = play.world
    with pytest.raises(CannotCancel) as refusal:
        play.cancel()
    assert refusal.value.status == play.status
    assert play.world == world


@pytest.mark.parametrize("situation", [name for name in ACTIVE if name != "cancelling"])
def test_nobody_confirms_a_cancel_that_was_not_asked_for(situation: str) -> None:
    play = ACTIVE[situation]()
    with pytest.raises(CannotCancel) as refusal:
        play.confirm_cancel()
    assert refusal.value.status == play.public


@pytest.mark.parametrize("is_started", [False, True])
def test_cancel_stops_what_is_still_out_and_answers_it(is_started: bool) -> None:
    play = a_round("look_up", "ask_user")
    worker, client = play.calls
    if is_started:
        worker = play.claim(worker)
    play.cancel()
    assert play.effects(StopCall) == [StopCall(worker.id, "tools", worker.worker)]
    assert {call.state for call in play.calls} == {CallState.CANCELLED}
    assert set(play.outputs) == {worker.id, client.id}
    assert play.steps[0].status is StepStatus.CANCELLED
    with pytest.raises(CallNotOpen):
        play.claim(worker)


# -- expiry --------------------------------------------------------------------------------------


@pytest.mark.parametrize("situation", ACTIVE)
def test_the_deadline_ends_a_run_whatever_it_waits_for(situation: str) -> None:
    play = ACTIVE[situation]()
    play.later(TTL_MS - 1)
    play.expire()
    assert not play.run.is_final
    assert (play.decision.events, play.decision.effects) == ((), ())
    play.later(1)
    play.expire()
    is_cancelled = situation == "cancelling"
    assert play.status is (RunStatus.CANCELLED if is_cancelled else RunStatus.EXPIRED)
    assert play.world.timers == {}


def test_an_expired_run_has_no_time_of_its_own_but_its_steps_have() -> None:
    play = ENDED["expired"]()
    assert (play.run.failed_ms, play.run.cancelled_ms, play.run.completed_ms) == (None, None, None)
    assert (play.steps[0].status, play.steps[0].expired_ms) == (StepStatus.EXPIRED, play.now_ms)


@pytest.mark.parametrize("status", ENDED)
def test_a_run_that_has_ended_does_not_expire(status: str) -> None:
    play = ENDED[status]()
    world = play.world
    play.later(TTL_MS)
    play.expire()
    assert play.world == world


def test_submitting_outputs_does_not_move_the_deadline() -> None:
    play = a_round("ask_user")
    play.later(TTL_MS - 10)
    play.submit({play.calls[0].id: "yes"})
    play.later(10)
    with pytest.raises(StaleTurn):
        play.start()
    assert play.status is RunStatus.EXPIRED


def test_with_everybody_gone_the_timers_alone_end_the_run_at_its_deadline() -> None:
    play = a_round("look_up")
    play.claim(play.calls[0])
    play.send_again(play.lose(play.calls[0]))
    play.later(TTL_MS)
    play.expire()
    assert play.status is RunStatus.EXPIRED


def test_a_cancel_without_an_engine_is_confirmed_before_its_lease_is_over() -> None:
    play = a_cancelled_turn()
    due = min(play.world.timers.values())
    assert due == play.now_ms + WATCHDOG_MS < play.now_ms + TURN_LEASE_MS


# -- what an end leaves behind -------------------------------------------------------------------


@pytest.mark.parametrize("status", ENDED)
def test_an_end_frees_the_thread_clears_the_timers_and_is_told_last(status: str) -> None:
    play = ENDED[status]()
    assert play.world.thread.active_run_id is None
    assert play.world.timers == {}
    assert play.world.log[-1].type == EventType(f"run.{status}")
    assert play.run.engine is None


@pytest.mark.parametrize("status", ENDED)
def test_nothing_leads_out_of_a_final_status(status: str) -> None:
    play = ENDED[status]()
    run = play.run
    for attempt in (play.start, play.requeue, play.fail_turn, lambda: play.reply(text="More")):
        with pytest.raises(StaleTurn):
            attempt()
    with pytest.raises(CannotCancel):
        play.confirm_cancel()
    with pytest.raises(NotAcceptingOutputs):
        play.submit({})
    assert play.run == run


def test_a_step_tells_why_it_failed_in_the_codes_that_steps_may_have() -> None:
    play = a_turn()
    play.fail_turn("invalid_prompt", "Too long.")
    assert play.run.last_error == LastError(code="invalid_prompt", message="Too long.")
    assert play.steps == ()


def test_a_thread_whose_run_was_cut_off_in_mid_round_goes_on_with_the_next_run() -> None:
    play = a_round("look_up", "ask_user")
    play.cancel()
    play.create("Once more, please")
    play.start()
    play.reply(text="Gladly.")
    assert play.status is RunStatus.COMPLETED


def test_a_message_step_that_is_done_stays_done_when_its_run_is_cancelled() -> None:
    play = a_turn()
    play.reply("look_up", text="One moment.")
    play.cancel()
    assert [step.status for step in play.steps] == [StepStatus.COMPLETED, StepStatus.CANCELLED]


def test_a_run_that_no_engine_ever_took_can_be_cancelled() -> None:
    play: Play = a_run()
    play.cancel()
    assert (play.run.started_ms, play.status) == (None, RunStatus.CANCELLED)
