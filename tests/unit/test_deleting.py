"""Deleting a thread ends its runs, one after another, and then the thread."""

import pytest

from orchestrator.commands import Cancel, DeleteThread, IfBusy
from orchestrator.decisions import SetTimer, StopCall, TimerKey, TimerKind
from orchestrator.errors import StaleTurn
from orchestrator.records import CallState
from orchestrator.states import RunStatus
from tests.unit.play import ACTIVE, ENDED, WATCHDOG_MS, Play, a_round, a_turn

DELETION = TimerKey(TimerKind.DELETION)


@pytest.mark.parametrize("situation", ACTIVE)
def test_the_active_run_ends_with_its_thread_in_one_decision(situation: str) -> None:
    play = ACTIVE[situation]()
    play.ask(DeleteThread())
    assert play.status is RunStatus.CANCELLED
    assert play.world.thread.is_deleted
    assert play.world.timers == {("", DELETION): play.now_ms}


@pytest.mark.parametrize("status", ENDED)
def test_a_thread_whose_run_has_ended_is_deleted_at_once(status: str) -> None:
    play = ENDED[status]()
    play.ask(DeleteThread())
    assert play.world.thread.is_deleted
    assert play.effects(SetTimer) == [SetTimer(DELETION, play.now_ms, run_id="")]


def test_calls_are_stopped() -> None:
    play = a_round("look_up", "charge")
    play.claim(play.calls[0])
    play.ask(DeleteThread())
    running, queued = play.calls
    assert play.effects(StopCall) == [
        StopCall(running.id, "tools", "worker_1"),
        StopCall(queued.id, "tools", None),
    ]
    assert {call.state for call in play.calls} == {CallState.CANCELLED}


def test_runs_that_wait_end_one_by_one_and_the_thread_with_the_last() -> None:
    play = a_turn()
    for _ in range(2):
        play.text(IfBusy.ENQUEUE, "And then?")
    play.add("Thanks.", if_busy=IfBusy.ENQUEUE)
    play.ask(Cancel(WATCHDOG_MS))
    for left in (1, 0):
        play.ask(DeleteThread())
        assert not play.world.thread.is_deleted
        assert len([one for one in play.world.thread.waiting if one.run_id]) == left
    play.ask(DeleteThread())
    assert play.world.thread.is_deleted
    assert {play.world.run(run_id).status for run_id in play.world.runs} == {RunStatus.CANCELLED}


def test_the_engine_that_still_talks_to_the_model_is_not_heard() -> None:
    play = a_turn()
    play.ask(DeleteThread())
    with pytest.raises(StaleTurn):
        play.reply(text="Read Dune.")


def test_a_thread_without_runs_is_deleted() -> None:
    play = Play()
    play.add("Hello")
    play.ask(DeleteThread())
    assert play.world.thread.is_deleted
