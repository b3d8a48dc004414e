"""What becomes of runs and messages that are sent while a run is active."""

from collections.abc import Callable, Mapping

import pytest

from orchestrator.commands import Cancel, Expire, IfBusy, StartTurn, Stop
from orchestrator.decide.waiting import MAX_WAITING, MAX_WAITING_BYTES
from orchestrator.decisions import AddRun, DropEntries, EventType, QueueTurn
from orchestrator.errors import StaleTurn, TooManyWaiting
from orchestrator.records import CallState
from orchestrator.states import RunStatus
from tests.unit.play import ACTIVE, TTL_MS, WATCHDOG_MS, Play, a_round, a_run, a_turn

ENQUEUE, INTERRUPT, ROLLBACK = IfBusy.ENQUEUE, IfBusy.INTERRUPT, IfBusy.ROLLBACK
ALL = (ENQUEUE, INTERRUPT, ROLLBACK)


def texts(play: Play) -> list[str]:
    """What the thread's messages say."""
    return [part["text"]["value"] for message in play.messages for part in message.content]


def statuses(play: Play) -> list[RunStatus]:
    """Of all runs of the thread, in the order of their creation."""
    return [play.world.run(run_id).status for run_id in sorted(play.world.runs)]


def end(play: Play) -> None:
    """Let the run come to its answer, or to the end that is already asked for."""
    if play.status is RunStatus.QUEUED:
        play.start()
    if play.status is RunStatus.REQUIRES_ACTION:
        play.cancel()
    elif play.status is RunStatus.CANCELLING:
        play.confirm_cancel()
    elif not play.run.is_final:
        play.reply(text="Read Dune.")


@pytest.mark.parametrize("if_busy", ALL)
def test_without_an_active_run_the_word_changes_nothing(if_busy: IfBusy) -> None:
    play = Play()
    play.add("Hello", if_busy=if_busy)
    play.run_id = play.text(if_busy, "What should I read?")
    assert texts(play) == ["Hello", "What should I read?"]
    assert play.world.thread.active_run_id == play.run_id
    assert play.world.thread.waiting == ()


@pytest.mark.parametrize("situation", ACTIVE)
def test_an_enqueued_run_leaves_the_active_one_alone_and_starts_after_it(situation: str) -> None:
    play = ACTIVE[situation]()
    before = play.run
    second = play.text(ENQUEUE, "And then?")
    assert play.run == before
    assert play.events == []
    assert play.world.run(second).status is RunStatus.QUEUED
    assert play.effects(QueueTurn) == []
    assert "And then?" not in texts(play)

    end(play)
    assert play.run.is_final
    assert play.world.thread.active_run_id == second
    assert play.world.orders[-1] == (second, QueueTurn())
    assert texts(play)[-1] == "And then?"
    play.run_id = second
    end(play)
    assert play.status is RunStatus.COMPLETED


def test_a_waiting_run_is_told_as_a_new_one() -> None:
    play = a_turn()
    second = play.text(ENQUEUE)
    (added,) = play.effects(AddRun)
    assert isinstance(added, AddRun)
    assert [event.type for event in added.events] == [EventType.RUN_CREATED, EventType.RUN_QUEUED]
    assert [event.run for event in added.events] == [play.world.run(second)] * 2


def test_no_engine_starts_a_run_that_waits() -> None:
    play = a_turn()
    second = play.text(ENQUEUE)
    with pytest.raises(StaleTurn):
        play.ask(StartTurn("engine_2", 15_000), second)


def test_what_waits_is_served_in_the_order_it_came() -> None:
    play = a_turn()
    second = play.text(ENQUEUE, "Two")
    play.add("Three", "Four", if_busy=ENQUEUE)
    third = play.text(ENQUEUE, "Five")
    play.add("Six", if_busy=ENQUEUE)
    end(play)
    assert texts(play)[1:] == ["Read Dune.", "Two"]
    play.run_id = second
    end(play)
    assert texts(play)[3:] == ["Read Dune.", "Three", "Four", "Five"]
    assert play.world.thread.active_run_id == third
    play.run_id = third
    end(play)
    assert texts(play)[7:] == ["Read Dune.", "Six"]
    assert play.world.thread.active_run_id is None


@pytest.mark.parametrize("situation", ACTIVE)
def test_an_interrupted_run_is_cancelled_and_what_it_said_stays(situation: str) -> None:
    play = ACTIVE[situation]()
    said = texts(play)
    second = play.text(INTERRUPT, "No, wait.")
    assert play.status in {RunStatus.CANCELLING, RunStatus.CANCELLED}
    end(play)
    assert statuses(play) == [RunStatus.CANCELLED, RunStatus.QUEUED]
    assert texts(play) == [*said, "No, wait."]
    assert play.world.thread.active_run_id == second
    assert not [call for call in play.calls if not call.is_settled]


def test_an_interrupt_and_its_run_are_one_decision() -> None:
    play = a_round("ask_user")
    second = play.text(INTERRUPT)
    assert play.status is RunStatus.CANCELLED
    assert play.calls[0].state is CallState.CANCELLED
    assert play.effects(QueueTurn) == [QueueTurn(second)]


def test_a_second_interrupt_waits_for_the_same_cancel() -> None:
    play = a_turn()
    second, third = play.text(INTERRUPT, "Two"), play.text(INTERRUPT, "Three")
    assert play.status is RunStatus.CANCELLING
    play.confirm_cancel()
    assert play.world.thread.active_run_id == second
    assert play.world.thread.waiting[0].run_id == third


def test_an_interrupted_turn_is_confirmed_by_the_watchdog() -> None:
    play = a_turn()
    play.text(INTERRUPT)
    watchdog_ms = min(at_ms for (owner, _), at_ms in play.world.timers.items() if owner == "run_1")
    assert watchdog_ms == play.now_ms + WATCHDOG_MS


@pytest.mark.parametrize("situation", ACTIVE)
def test_a_rollback_takes_away_what_the_run_added_and_nothing_else(situation: str) -> None:
    play = ACTIVE[situation]()
    second = play.text(ROLLBACK, "Start again.")
    end(play)
    assert play.status is RunStatus.CANCELLED
    assert play.run.is_rolled_back
    assert texts(play) == ["Start again."]
    assert play.outputs == {}
    assert all(call.is_settled for call in play.calls)
    assert play.world.thread.active_run_id == second


def test_a_rollback_keeps_what_was_there_before_the_run() -> None:
    play = Play()
    play.add("Hello")
    play.run_id = play.text(ENQUEUE, "What should I read?")
    play.start()
    play.text(ROLLBACK, "Never mind.")
    play.confirm_cancel()
    assert texts(play) == ["Hello", "Never mind."]
    (dropped,) = play.effects(DropEntries)
    assert dropped == DropEntries(1, 2)


def test_a_rollback_takes_the_messages_of_a_run_that_has_waited() -> None:
    play = a_turn()
    play.add("By the way.", if_busy=ENQUEUE)
    second = play.text(ENQUEUE, "Two")
    end(play)
    play.run_id = second
    play.start()
    play.text(ROLLBACK, "Three")
    play.confirm_cancel()
    assert texts(play)[1:] == ["Read Dune.", "By the way.", "Three"]


def test_an_answer_that_is_complete_before_the_rollback_stays() -> None:
    play = a_turn()
    play.text(ROLLBACK, "Never mind.")
    play.reply(text="Read Dune.")
    assert play.status is RunStatus.COMPLETED
    assert not play.run.is_rolled_back
    assert texts(play) == ["What should I read next?", "Read Dune.", "Never mind."]


def test_the_late_result_of_a_run_that_was_rolled_back_adds_nothing() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.text(ROLLBACK)
    entries = play.world.entries
    play.finish(call)
    assert play.calls[0].late
    assert play.world.entries == entries == ()


@pytest.mark.parametrize("if_busy", [INTERRUPT, ROLLBACK])
def test_messages_make_way_for_themselves_like_runs(if_busy: IfBusy) -> None:
    play = a_turn()
    play.add("No, wait.", if_busy=if_busy)
    assert play.status is RunStatus.CANCELLING
    play.confirm_cancel()
    before = [] if if_busy is ROLLBACK else ["What should I read next?"]
    assert texts(play) == [*before, "No, wait."]
    assert play.world.thread.active_run_id is None


def test_a_message_has_the_time_when_it_was_sent() -> None:
    play = a_turn()
    play.later(500)
    play.add("And then?", if_busy=ENQUEUE)
    sent_ms = play.now_ms
    play.later(500)
    end(play)
    assert play.messages[-1].created_ms == sent_ms


@pytest.mark.parametrize("command", [Cancel(WATCHDOG_MS), Expire()])
def test_a_run_that_ends_while_it_waits_leaves_its_messages(command: Cancel | Expire) -> None:
    play = a_turn()
    second = play.text(ENQUEUE, "Two", ttl_ms=100)
    third = play.text(ENQUEUE, "Three")
    if isinstance(command, Expire):
        play.later(100)
    play.ask(command, second)
    assert play.world.run(second).is_final
    assert not play.run.is_final
    end(play)
    assert texts(play)[-2:] == ["Two", "Three"]
    assert play.world.thread.active_run_id == third


def test_a_run_without_messages_leaves_nothing_behind() -> None:
    play = a_turn()
    second = play.text(ENQUEUE)
    play.ask(Cancel(WATCHDOG_MS), second)
    assert play.world.thread.waiting == ()


def test_a_run_expires_ten_minutes_after_its_creation_however_long_it_has_waited() -> None:
    play = a_turn()
    play.later(1_000)
    second = play.text(ENQUEUE)
    play.later(TTL_MS - 500)
    play.look_at_the_clock(play.run_id)
    assert statuses(play) == [RunStatus.EXPIRED, RunStatus.QUEUED]
    play.later(500)
    play.look_at_the_clock(second)
    assert statuses(play) == [RunStatus.EXPIRED, RunStatus.EXPIRED]
    assert play.world.thread.active_run_id is None


def test_only_so_many_wait() -> None:
    play = a_run()
    for _ in range(MAX_WAITING - 1):
        play.text(ENQUEUE)
    play.add("The last one", if_busy=ENQUEUE)
    world = play.world
    with pytest.raises(TooManyWaiting):
        play.text(INTERRUPT)
    with pytest.raises(TooManyWaiting):
        play.add("Too much", if_busy=ENQUEUE)
    assert play.world == world


def test_only_so_many_bytes_wait() -> None:
    play = a_run()
    half = "ü" * (MAX_WAITING_BYTES // 4)
    play.add(half, if_busy=ENQUEUE)
    world = play.world
    with pytest.raises(TooManyWaiting):
        play.text(INTERRUPT, half)
    assert play.world == world
    play.add("A short one", if_busy=ENQUEUE)


def expire(play: Play) -> None:
    play.later(TTL_MS)
    play.expire()


ENDINGS: Mapping[str, Callable[[Play], object]] = {
    "completed": lambda play: play.reply(text="Read Dune."),
    "failed": Play.fail_turn,
    "incomplete": lambda play: play.reply(text="Read", stop=Stop.LENGTH),
    "expired": expire,
}


@pytest.mark.parametrize("status", ENDINGS)
def test_however_a_run_ends_the_next_one_has_the_thread(status: str) -> None:
    play = a_turn()
    second = play.text(ENQUEUE, ttl_ms=2 * TTL_MS)
    ENDINGS[status](play)
    assert play.status == status
    assert play.world.thread.active_run_id == second
    assert play.world.orders[-1] == (second, QueueTurn())
