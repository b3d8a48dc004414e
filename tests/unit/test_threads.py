"""What clients do to a thread: add messages, start a run."""

from typing import Any

import pytest

from orchestrator.commands import CreateRun, IfBusy, ImportMessage
from orchestrator.decide import decide
from orchestrator.decisions import (
    AddRun,
    EventType,
    PutEntry,
    QueueTurn,
    SetTimer,
    TimerKey,
    TimerKind,
)
from orchestrator.errors import MessageWhileBusy, ThreadBusy
from orchestrator.records import Aggregate, Message, Thread
from orchestrator.states import RunStatus
from tests.unit.play import ACTIVE, ENDED, TTL_MS, Play, a_round, spec


def test_a_new_run_is_queued_with_its_deadline_and_holds_the_thread() -> None:
    play = Play()
    play.create("Hello")
    assert play.status is RunStatus.QUEUED
    assert play.run.deadline_ms == play.run.created_ms + TTL_MS
    assert play.world.thread.active_run_id == play.run.id
    assert play.events == [EventType.RUN_CREATED, EventType.RUN_QUEUED]
    deadline = SetTimer(TimerKey(TimerKind.DEADLINE), play.run.deadline_ms)
    assert play.effects(SetTimer) == [deadline]
    assert play.effects(QueueTurn) == [QueueTurn()]


def test_the_messages_of_a_run_follow_those_of_the_thread() -> None:
    play = Play()
    play.add("One", "Two")
    play.create("Three")
    assert [message.content[0]["text"]["value"] for message in play.messages] == [
        "One",
        "Two",
        "Three",
    ]
    assert [message.seq for message in play.messages] == [0, 1, 2]
    assert {message.run_id for message in play.messages} == {None}


@pytest.mark.parametrize("situation", ACTIVE)
def test_a_busy_thread_takes_no_message_and_no_run_and_appends_nothing(situation: str) -> None:
    play = ACTIVE[situation]()
    world = play.world
    with pytest.raises(MessageWhileBusy) as no_message:
        play.add("And another thing")
    with pytest.raises(ThreadBusy) as no_run:
        play.create("Never mind")
    assert no_message.value.run_id == no_run.value.run_id == play.run.id
    assert play.world == world


@pytest.mark.parametrize("status", ENDED)
def test_after_its_run_has_ended_a_thread_takes_messages_and_runs_again(status: str) -> None:
    play = ENDED[status]()
    play.add("And another thing")
    play.create()
    assert play.run.id == "run_2"
    assert play.status is RunStatus.QUEUED


def test_a_new_run_begins_with_nothing_of_the_last_one() -> None:
    play = a_round("look_up")
    play.cancel()
    play.create()
    assert (play.steps, play.calls, play.run.usage, play.run.generation) == ((), (), None, 0)


def test_a_command_that_is_decided_leaves_the_aggregate_it_was_given_as_it_was() -> None:
    before = Aggregate(thread=Thread(id="thread_1", created_ms=0))
    after = decide(before, CreateRun("run_1", spec(), TTL_MS), 5).aggregate
    assert before.run is None
    assert after.run is not None


def test_a_run_belongs_to_the_tenant_of_its_thread_whatever_was_asked_for() -> None:
    thread = Thread(id="thread_1", created_ms=0, tenant="library")
    command = CreateRun("run_1", spec(tenant="shop"), TTL_MS)
    first = decide(Aggregate(thread=thread), command, 5).aggregate
    assert first.spec is not None
    assert first.spec.tenant == "library"
    later = CreateRun("run_2", spec(tenant="shop"), TTL_MS, if_busy=IfBusy.ENQUEUE)
    (added,) = (e for e in decide(first, later, 6).effects if isinstance(e, AddRun))
    assert added.spec.tenant == "library"


@pytest.mark.parametrize("situation", [*ACTIVE, *ENDED])
def test_metadata_can_be_replaced_at_any_time_and_nothing_else_changes(situation: str) -> None:
    play = {**ACTIVE, **ENDED}[situation]()
    before = play.run
    play.modify(colour="red", size="big")
    play.modify(colour="blue")
    assert play.run == before.but(metadata={"colour": "blue"})
    assert play.events == []


def imported(**fields: Any) -> ImportMessage:
    message = Message(
        seq=0, id="msg_old", thread_id="thread_1", created_ms=7, role="user", content=(), **fields
    )
    return ImportMessage(message)


def test_an_imported_message_goes_to_the_end_and_keeps_its_id_and_times() -> None:
    thread = Thread(id="thread_1", created_ms=0, next_seq=4)
    command = imported(run_id="run_elsewhere", completed_ms=8)
    decision = decide(Aggregate(thread=thread), command, 1_000)
    assert decision.aggregate.thread.next_seq == 5
    assert decision.effects == (PutEntry(command.message.but(seq=4)),)


@pytest.mark.parametrize("situation", ACTIVE)
def test_nothing_is_imported_into_a_busy_thread(situation: str) -> None:
    with pytest.raises(MessageWhileBusy):
        decide(Aggregate(thread=ACTIVE[situation]().world.thread), imported(), 1_000)
