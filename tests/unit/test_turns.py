"""What engines do: take a turn, bring the model's reply, or let go of it."""

import json
from typing import get_args

import pytest

from orchestrator.commands import ProposedCall, Stop
from orchestrator.decisions import EventType, QueueTurn, SetTimer, TimerKey, TimerKind
from orchestrator.errors import LastErrorCode, StaleTurn
from orchestrator.records import (
    CallRound,
    CallState,
    Executor,
    LastError,
    MessageStatus,
    StepStatus,
    Usage,
)
from orchestrator.states import RunStatus
from tests.unit.play import (
    TTL_MS,
    TURN_LEASE_MS,
    a_cancelled_turn,
    a_round,
    a_run,
    a_turn,
    text_part,
)

TEN = Usage(prompt_tokens=10, completion_tokens=1)

# -- taking a turn -------------------------------------------------------------------------------


def test_an_engine_takes_a_turn_with_a_lease_of_its_own_generation() -> None:
    play = a_run()
    assert play.start("engine_7") == 1
    assert (play.status, play.run.engine) == (RunStatus.IN_PROGRESS, "engine_7")
    lease = TimerKey(TimerKind.TURN_LEASE, generation=1)
    assert play.effects(SetTimer) == [SetTimer(lease, play.now_ms + TURN_LEASE_MS)]


def test_a_turn_is_taken_by_one_engine_only() -> None:
    play = a_turn()
    with pytest.raises(StaleTurn) as refusal:
        play.start("engine_2")
    assert (refusal.value.generation, refusal.value.status) == (1, RunStatus.IN_PROGRESS)
    assert play.run.engine == "engine_1"


def test_no_lease_outlives_the_deadline() -> None:
    play = a_run(ttl_ms=1_000)
    play.start()
    assert set(play.world.timers.values()) == {play.run.deadline_ms}


# -- letting go of it ----------------------------------------------------------------------------


def test_a_lost_engine_loses_its_turn_to_the_next_one() -> None:
    play = a_turn()
    play.requeue()
    assert (play.status, play.run.engine) == (RunStatus.QUEUED, None)
    assert play.events == [EventType.TURN_LOST, EventType.RUN_QUEUED]
    assert play.decision.events[0].detail == "engine_1"
    assert play.effects(QueueTurn) == [QueueTurn()]
    assert play.start("engine_2") == 2


def test_what_a_lost_engine_still_sends_changes_nothing() -> None:
    play = a_turn()
    play.requeue()
    play.start("engine_2")
    world = play.world
    with pytest.raises(StaleTurn):
        play.reply(text="I am back", generation=1)
    with pytest.raises(StaleTurn):
        play.requeue(generation=1)
    assert play.world == world
    play.reply(text="Here you are.")
    assert play.status is RunStatus.COMPLETED


def test_of_two_results_under_one_generation_only_the_first_counts() -> None:
    play = a_turn()
    play.reply("look_up")
    with pytest.raises(StaleTurn):
        play.reply("look_up", generation=1)
    assert len(play.calls) == 1


def test_a_turn_cannot_be_given_up_before_it_is_taken() -> None:
    with pytest.raises(StaleTurn):
        a_run().requeue()


# -- replies -------------------------------------------------------------------------------------


def test_a_reply_without_calls_is_the_answer() -> None:
    play = a_turn()
    play.reply(text="Read Dune.", usage=TEN)
    assert play.status is RunStatus.COMPLETED
    assert play.messages[-1].content == (text_part("Read Dune."),)
    (step,) = play.steps
    assert (step.type, step.status, step.usage) == ("message_creation", StepStatus.COMPLETED, TEN)
    assert step.message_id == play.messages[-1].id
    assert play.events == [
        EventType.STEP_CREATED,
        EventType.MESSAGE_CREATED,
        EventType.MESSAGE_COMPLETED,
        EventType.STEP_COMPLETED,
        EventType.RUN_COMPLETED,
    ]


@pytest.mark.parametrize("stop", [Stop.DONE, Stop.TOOLS])
def test_an_empty_reply_is_an_empty_message(stop: Stop) -> None:
    play = a_turn()
    play.reply(text=None, stop=stop)
    assert play.status is RunStatus.COMPLETED
    assert play.messages[-1].content == (text_part(""),)


def test_a_refusal_of_the_model_is_a_message_of_its_own_kind() -> None:
    play = a_turn()
    play.reply(refusal="I must not.")
    assert play.status is RunStatus.COMPLETED
    assert play.messages[-1].content == ({"type": "refusal", "refusal": "I must not."},)


def test_a_reply_that_speaks_and_asks_is_two_steps_and_two_entries_of_one_turn() -> None:
    play = a_turn()
    play.reply("look_up", text="One moment.", usage=TEN)
    spoken, asked = play.steps
    assert (spoken.type, spoken.status) == ("message_creation", StepStatus.COMPLETED)
    assert (asked.type, asked.status) == ("tool_calls", StepStatus.IN_PROGRESS)
    assert (spoken.usage, asked.usage) == (Usage(), TEN)
    message, calls = play.world.entries[-2:]
    assert isinstance(calls, CallRound)
    assert (message, calls.turn) == (play.messages[-1], play.messages[-1].turn)


@pytest.mark.parametrize("usage", [None, TEN])
def test_a_reply_that_only_asks_is_one_step(usage: Usage | None) -> None:
    play = a_turn()
    play.reply("look_up", usage=usage)
    (step,) = play.steps
    assert (step.type, step.usage, play.run.usage) == ("tool_calls", usage, usage)
    assert play.status is RunStatus.REQUIRES_ACTION


def test_a_model_that_asks_and_says_it_is_done_is_taken_at_its_calls() -> None:
    play = a_turn()
    play.reply("look_up", stop=Stop.DONE)
    assert play.status is RunStatus.REQUIRES_ACTION


def test_usage_adds_up_and_an_unknown_one_adds_nothing() -> None:
    play = a_turn()
    for usage in (TEN, None, TEN):
        play.reply("missing", text="Hm.", usage=usage)
        play.start()
    assert play.run.usage == Usage(prompt_tokens=20, completion_tokens=2)
    assert [step.usage for step in play.steps] == [Usage(), TEN, None, None, Usage(), TEN]


def test_failed_attempts_of_the_model_are_counted() -> None:
    play = a_turn()
    play.reply("missing", failed_attempts=2)
    play.start()
    play.fail_turn()
    assert play.run.failed_attempts == 5


# -- replies that end badly ----------------------------------------------------------------------


@pytest.mark.parametrize("asked", [[], ["look_up", "ask_user"]])
def test_a_reply_cut_off_by_its_length_ends_the_run_and_never_runs_its_calls(
    asked: list[str],
) -> None:
    play = a_turn()
    play.reply(*asked, text="It was a dark and", stop=Stop.LENGTH, usage=TEN)
    assert (play.status, play.calls) == (RunStatus.INCOMPLETE, ())
    assert play.run.incomplete_reason == "max_completion_tokens"
    message = play.messages[-1]
    assert (message.status, message.incomplete_reason) == (MessageStatus.INCOMPLETE, "max_tokens")
    assert [step.status for step in play.steps] == [StepStatus.COMPLETED]
    assert EventType.MESSAGE_INCOMPLETE in play.events


@pytest.mark.parametrize("asked", [[], ["look_up", "ask_user"]])
def test_a_reply_stopped_by_a_filter_fails_the_run_and_never_runs_its_calls(
    asked: list[str],
) -> None:
    play = a_turn()
    play.reply(*asked, text="It was a", stop=Stop.FILTER, usage=TEN)
    assert (play.status, play.calls) == (RunStatus.FAILED, ())
    assert play.run.last_error
    assert "content filter" in play.run.last_error.message
    message = play.messages[-1]
    assert (message.status, message.incomplete_reason) == (
        MessageStatus.INCOMPLETE,
        "content_filter",
    )
    (step,) = play.steps
    assert (step.status, step.last_error) == (StepStatus.FAILED, play.run.last_error)


@pytest.mark.parametrize("code", get_args(LastErrorCode))
def test_a_model_that_cannot_be_asked_fails_the_run_with_the_reason(code: LastErrorCode) -> None:
    play = a_turn()
    play.fail_turn(code, "No more tokens today.")
    assert play.status is RunStatus.FAILED
    assert play.run.last_error == LastError(code=code, message="No more tokens today.")


# -- caps ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cap", "usage"),
    [
        ("max_completion_tokens", Usage(prompt_tokens=1, completion_tokens=20)),
        ("max_prompt_tokens", Usage(prompt_tokens=20, completion_tokens=1)),
    ],
)
@pytest.mark.parametrize("text", [None, "One moment."])
def test_a_spent_budget_ends_the_run_before_more_tools_are_asked(
    cap: str, usage: Usage, text: str | None
) -> None:
    play = a_turn(**{cap: 20})
    play.reply("look_up", "ask_user", text=text, usage=usage)
    assert (play.status, play.run.incomplete_reason) == (RunStatus.INCOMPLETE, cap)
    assert (play.calls, play.run.usage) == ((), usage)
    assert [step.usage for step in play.steps] == ([usage] if text else [])


@pytest.mark.parametrize("cap", ["max_completion_tokens", "max_prompt_tokens"])
def test_a_budget_that_is_not_spent_yet_lets_the_run_go_on(cap: str) -> None:
    play = a_turn(**{cap: 21})
    play.reply("look_up", usage=Usage(prompt_tokens=20, completion_tokens=20))
    assert play.status is RunStatus.REQUIRES_ACTION


def test_an_answer_within_the_turn_that_spends_the_budget_still_completes() -> None:
    play = a_turn(max_completion_tokens=1, max_prompt_tokens=1, max_turns=1)
    play.reply(text="Read Dune.", usage=TEN)
    assert play.status is RunStatus.COMPLETED


def test_a_model_that_never_comes_to_an_answer_is_stopped_after_so_many_turns() -> None:
    play = a_turn(max_turns=3)
    for _ in range(2):
        play.reply("missing")
        play.start()
    play.reply("look_up", text="Just one more.")
    assert (play.status, play.run.turns) == (RunStatus.FAILED, 3)
    assert play.run.last_error
    assert "3 model turns" in play.run.last_error.message


# -- tools that cannot be asked ------------------------------------------------------------------


def test_a_name_that_the_run_does_not_declare_is_answered_and_the_run_goes_on() -> None:
    play = a_turn()
    (call,) = play.reply("missing")
    assert (call.executor, call.state) == (Executor.REFUSED, CallState.FAILED)
    error = json.loads(play.outputs[call.id])["error"]
    assert (error["type"], error["retryable"]) == ("unknown_tool", False)
    assert "look_up" in error["message"]
    assert call.error == error["message"]
    assert play.status is RunStatus.QUEUED
    told = [event for event in play.events if event.startswith("run.")]
    assert told == [EventType.RUN_REQUIRES_ACTION, EventType.RUN_QUEUED]
    assert play.effects(QueueTurn) == [QueueTurn()]


def test_a_run_without_tools_says_so_to_a_model_that_asks_for_one() -> None:
    play = a_turn(tools=())
    (call,) = play.reply("look_up")
    assert "on each other: none." in play.outputs[call.id]


def test_arguments_that_do_not_fit_are_answered_with_what_is_wrong() -> None:
    play = a_turn()
    bad = ProposedCall("call_9", "look_up", '{"limit": "many"}', refusal="limit must be a number")
    refused, good = play.reply(bad, "look_up")
    assert play.outputs == {refused.id: "limit must be a number"}
    assert (refused.error, good.state) == ("limit must be a number", CallState.DISPATCHED)
    assert play.status is RunStatus.REQUIRES_ACTION


# -- replies while cancelling --------------------------------------------------------------------


def test_calls_that_are_asked_while_cancelling_are_not_run() -> None:
    play = a_cancelled_turn()
    play.reply("look_up", text="One moment.", usage=TEN)
    assert play.status is RunStatus.CANCELLED
    assert (play.calls, play.steps) == ((), ())
    assert len(play.messages) == 1
    assert play.run.usage == TEN


def test_an_answer_that_was_there_before_the_engine_let_go_wins_over_cancelling() -> None:
    play = a_cancelled_turn()
    play.reply(text="Read Dune.")
    assert play.status is RunStatus.COMPLETED
    assert play.run.cancelled_ms is None


@pytest.mark.parametrize(
    ("stop", "status"), [(Stop.LENGTH, RunStatus.INCOMPLETE), (Stop.FILTER, RunStatus.FAILED)]
)
def test_so_does_an_answer_that_was_cut_off(stop: Stop, status: RunStatus) -> None:
    play = a_cancelled_turn()
    play.reply(text="It was a", stop=stop)
    assert play.status is status


def test_an_engine_that_is_lost_while_cancelling_leaves_a_cancelled_run() -> None:
    play = a_cancelled_turn()
    play.requeue()
    assert play.status is RunStatus.CANCELLED


# -- time ----------------------------------------------------------------------------------------


def test_a_clock_that_goes_back_does_not_take_the_run_with_it() -> None:
    play = a_round("look_up")
    play.later(500)
    call = play.claim(play.calls[0])
    play.later(-400)
    call = play.finish(call)
    assert call.started_ms == call.finished_ms == play.run.updated_ms
    assert play.decision.events[0].at_ms == play.run.updated_ms


def test_each_turn_has_the_time_that_is_left_and_no_more() -> None:
    play = a_round("ask_user")
    deadline_ms = play.run.deadline_ms
    play.later(TTL_MS - 1)
    play.submit({play.calls[0].id: "yes"})
    play.start()
    assert play.run.deadline_ms == deadline_ms
    play.later(1)
    with pytest.raises(StaleTurn) as refusal:
        play.reply(text="Too late")
    assert refusal.value.status == play.status == RunStatus.EXPIRED
