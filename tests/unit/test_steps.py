"""What can be seen of a reply before it is there: messages and calls that are begun, then ended."""

from collections.abc import Callable

import pytest

from orchestrator.commands import OpenCalls, Stop
from orchestrator.conversation import Said, build, grouped
from orchestrator.decide.steps import LOST
from orchestrator.decisions import EventType, PutEntry, RetireLog
from orchestrator.errors import StaleTurn
from orchestrator.records import CallRound, MessageStatus, StepStatus, Usage
from orchestrator.states import RunStatus
from tests.unit.play import ENDED, TTL_MS, WATCHDOG_MS, Play, a_round, a_run, a_turn, text_part

TEN = Usage(prompt_tokens=10, completion_tokens=1)


def a_speech(words: str = "Let me", **changes: int) -> Play:
    """A run whose model has begun to speak."""
    play = a_turn(**changes)
    play.speak(words)
    return play


def a_begun_round() -> Play:
    """A run whose model has begun to ask for tools."""
    play = a_turn()
    play.begin_calls()
    return play


def confirm_cancel(play: Play) -> None:
    """Cancel, and the engine lets go."""
    play.cancel()
    play.confirm_cancel()


def cancel_without_an_engine(play: Play) -> None:
    """Cancel, and the engine is found dead."""
    play.cancel()
    play.later(WATCHDOG_MS)
    play.requeue()


def expire(play: Play) -> None:
    """Let the deadline pass."""
    play.later(TTL_MS)
    play.expire()


CUTS: dict[str, tuple[Callable[[Play], None], RunStatus, StepStatus]] = {
    "cancelled": (confirm_cancel, RunStatus.CANCELLED, StepStatus.CANCELLED),
    "dead": (cancel_without_an_engine, RunStatus.CANCELLED, StepStatus.CANCELLED),
    "expired": (expire, RunStatus.EXPIRED, StepStatus.EXPIRED),
    "failed": (lambda play: play.fail_turn(), RunStatus.FAILED, StepStatus.FAILED),
}
"""What may come in the middle of a reply, and how the run and the open step end."""

# -- messages ------------------------------------------------------------------------------------


def test_a_message_that_is_begun_is_empty_and_in_progress() -> None:
    play = a_turn()
    message = play.speak()
    assert (message.status, message.content, message.turn) == (MessageStatus.IN_PROGRESS, (), 0)
    (step,) = play.steps
    assert (step.status, step.message_id) == (StepStatus.IN_PROGRESS, message.id)
    assert play.events == [EventType.STEP_CREATED, EventType.MESSAGE_CREATED]
    assert play.effects(PutEntry) == [PutEntry(message)]
    assert play.status is RunStatus.IN_PROGRESS


def test_the_reply_ends_the_message_that_was_begun_and_makes_no_other() -> None:
    play = a_turn()
    begun = play.speak("Read")
    (begun_step,) = play.steps
    play.later(5)
    play.reply(text="Read Dune.", usage=TEN)
    message = play.messages[-1]
    assert (message.id, message.seq, message.created_ms) == (begun.id, begun.seq, begun.created_ms)
    assert (message.content, message.completed_ms) == ((text_part("Read Dune."),), play.now_ms)
    (step,) = play.steps
    assert (step.id, step.status, step.usage) == (begun_step.id, StepStatus.COMPLETED, TEN)
    assert play.events == [
        EventType.MESSAGE_COMPLETED,
        EventType.STEP_COMPLETED,
        EventType.RUN_COMPLETED,
    ]


def test_beginning_to_speak_twice_is_harmless() -> None:
    play = a_speech()
    world = play.world
    play.speak()
    assert play.world == world
    assert (play.decision.events, play.decision.effects) == ((), ())


@pytest.mark.parametrize("generation", [0, 2])
def test_only_the_engine_that_has_the_turn_may_speak(generation: int) -> None:
    play = a_turn()
    world = play.world
    with pytest.raises(StaleTurn):
        play.speak(generation=generation)
    with pytest.raises(StaleTurn):
        play.begin_calls(generation)
    assert play.world == world


@pytest.mark.parametrize("situation", [a_run, lambda: a_round("look_up"), *ENDED.values()])
def test_nobody_speaks_outside_of_a_turn(situation: Callable[[], Play]) -> None:
    play = situation()
    with pytest.raises(StaleTurn):
        play.speak()
    with pytest.raises(StaleTurn):
        play.begin_calls()


def test_a_model_may_begin_to_speak_while_its_run_is_being_cancelled() -> None:
    play = a_turn()
    play.cancel()
    play.speak("Read")
    play.reply(text="Read Dune.")
    assert (play.status, play.messages[-1].content) == (
        RunStatus.COMPLETED,
        (text_part("Read Dune."),),
    )


def test_a_reply_without_words_empties_the_message_that_was_begun() -> None:
    play = a_speech("")
    play.reply()
    assert play.status is RunStatus.COMPLETED
    assert play.messages[-1].content == (text_part(""),)


@pytest.mark.parametrize("words", ["", "To make it, "])
def test_a_refusal_ends_the_message_that_was_begun_and_follows_on_its_words(words: str) -> None:
    play = a_speech(words)
    play.reply(refusal="I must not.", text=words or None)
    assert len(play.steps) == 1
    *before, refusal = play.messages[-1].content
    assert before == ([text_part(words)] if words else [])
    assert refusal == {"type": "refusal", "refusal": "I must not."}
    (delta,) = [event.delta for event in play.decision.events if event.delta]
    assert (delta["index"], delta["refusal"]) == (len(before), "I must not.")


def test_a_filter_cuts_the_message_that_was_begun_and_fails_its_step() -> None:
    play = a_speech("It was")
    play.reply(text="It was a", stop=Stop.FILTER)
    message, (step,) = play.messages[-1], play.steps
    assert (message.status, message.incomplete_reason) == ("incomplete", "content_filter")
    assert (step.status, step.last_error) == (StepStatus.FAILED, play.run.last_error)
    assert play.status is RunStatus.FAILED


# -- cut off -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "content"), [("Let me", (text_part("Let me"),)), ("", ())], ids=["words", "none"]
)
@pytest.mark.parametrize("cut", CUTS)
def test_a_message_that_is_cut_off_keeps_what_was_said(
    cut: str, words: str, content: tuple[object, ...]
) -> None:
    end, run_status, step_status = CUTS[cut]
    play = a_speech(words)
    end(play)
    message, (step,) = play.messages[-1], play.steps
    assert (message.content, message.is_void) == (content, False)
    assert (message.status, message.incomplete_ms) == (MessageStatus.INCOMPLETE, play.now_ms)
    assert message.incomplete_reason == f"run_{run_status}"
    assert (play.status, step.status) == (run_status, step_status)
    assert play.world.load(play.run_id).partial == ""


@pytest.mark.parametrize("cut", CUTS)
def test_a_cut_is_told_before_the_end_of_its_step_and_run(cut: str) -> None:
    end, run_status, step_status = CUTS[cut]
    play = a_speech()
    end(play)
    assert [event.type for event in play.world.log[-3:]] == [
        EventType.MESSAGE_INCOMPLETE,
        EventType(f"step.{step_status}"),
        EventType(f"run.{run_status}"),
    ]


def test_what_was_said_before_the_cut_is_remembered_by_the_next_run() -> None:
    play = a_speech("Let me")
    confirm_cancel(play)
    play.create()
    assert Said("Let me") in build("", grouped(play.world.entries)).items


@pytest.mark.parametrize("cut", CUTS)
def test_calls_that_are_cut_off_leave_a_step_without_calls(cut: str) -> None:
    end, run_status, step_status = CUTS[cut]
    play = a_begun_round()
    end(play)
    (step,) = play.steps
    assert (step.status, step.call_ids) == (step_status, ())
    assert (play.status, play.calls) == (run_status, ())


def test_calls_that_come_while_cancelling_are_not_run_and_what_was_said_stays() -> None:
    play = a_begun_round()
    play.speak("Let me")
    play.cancel()
    play.reply("look_up", text="Let me see.", usage=TEN)
    assert (play.status, play.calls, play.run.usage) == (RunStatus.CANCELLED, (), TEN)
    assert [step.status for step in play.steps] == [StepStatus.CANCELLED] * 2
    assert play.messages[-1].content == (text_part("Let me"),)


# -- lost turns ----------------------------------------------------------------------------------


def test_a_message_of_a_lost_turn_is_void_and_its_step_has_failed() -> None:
    play = a_speech("Let me")
    play.requeue()
    message, (step,) = play.messages[-1], play.steps
    assert (message.is_void, message.status) == (True, MessageStatus.INCOMPLETE)
    assert (message.content, message.incomplete_reason) == ((text_part("Let me"),), "run_failed")
    assert (step.status, step.last_error, step.usage) == (StepStatus.FAILED, LOST, None)
    assert play.events == [
        EventType.MESSAGE_INCOMPLETE,
        EventType.STEP_FAILED,
        EventType.TURN_LOST,
        EventType.RUN_QUEUED,
    ]
    assert play.run.last_error is None


def test_the_next_attempt_begins_anew_and_the_model_is_shown_it_alone() -> None:
    play = a_speech("Let me")
    lost = play.messages[-1]
    play.requeue()
    play.start("engine_2")
    again = play.speak("Read")
    assert (again.id != lost.id, again.content) == (True, ())
    play.reply(text="Read Dune.", usage=TEN)
    assert build("", grouped(play.world.entries)).items[1:] == (Said("Read Dune."),)
    assert [step.status for step in play.steps] == [StepStatus.FAILED, StepStatus.COMPLETED]
    assert (play.run.usage, play.status) == (TEN, RunStatus.COMPLETED)


def test_a_lost_turn_leaves_the_turns_before_it_as_they_were() -> None:
    play = a_turn()
    play.reply("missing", text="One moment.")
    before = play.steps
    play.start()
    play.speak("Let me")
    play.requeue()
    assert play.steps[:-1] == before
    assert [message.is_void for message in play.messages] == [False, False, True]


def test_what_a_lost_engine_still_says_is_refused() -> None:
    play = a_speech("Let me")
    generation = play.run.generation
    play.requeue()
    play.start("engine_2")
    world = play.world
    with pytest.raises(StaleTurn):
        play.speak(generation=generation)
    with pytest.raises(StaleTurn):
        play.begin_calls(generation)
    assert play.world == world


def test_calls_that_were_begun_in_a_lost_turn_are_begun_anew() -> None:
    play = a_begun_round()
    (lost,) = play.steps
    play.requeue()
    play.start("engine_2")
    play.begin_calls()
    (call,) = play.reply("look_up")
    assert [step.status for step in play.steps] == [StepStatus.FAILED, StepStatus.IN_PROGRESS]
    assert (play.steps[0].last_error, play.steps[0].call_ids) == (LOST, ())
    assert call.step_id == play.steps[1].id != lost.id


# -- calls ---------------------------------------------------------------------------------------


def test_calls_that_are_begun_have_a_step_and_nothing_else_yet() -> None:
    play = a_turn()
    step = play.begin_calls()
    assert (step.type, step.status, step.call_ids) == ("tool_calls", StepStatus.IN_PROGRESS, ())
    assert (play.events, play.calls) == ([EventType.STEP_CREATED], ())
    assert play.status is RunStatus.IN_PROGRESS


def test_beginning_to_ask_twice_is_harmless() -> None:
    play = a_begun_round()
    world = play.world
    play.begin_calls()
    assert play.world == world


def test_calls_that_were_begun_keep_their_step_and_tell_it_once() -> None:
    play = a_begun_round()
    (begun,) = play.steps
    (call,) = play.reply("look_up", usage=TEN)
    (step,) = play.steps
    assert (call.step_id, step.id, step.call_ids) == (begun.id, begun.id, (call.id,))
    assert (step.usage, step.created_ms) == (TEN, begun.created_ms)
    assert play.events == [EventType.CALL_DISPATCHED, EventType.RUN_REQUIRES_ACTION]


def test_calls_that_come_all_at_once_are_told_whole() -> None:
    play = a_turn()
    first, second = play.reply("look_up", "ask_user")
    deltas = [event.delta for event in play.decision.events if event.delta]
    assert [(delta["call_id"], delta["index"]) for delta in deltas] == [
        (first.id, 0),
        (second.id, 1),
    ]
    assert play.events[:3] == [EventType.STEP_CREATED, *[EventType.STEP_DELTA] * 2]


def test_calls_that_follow_on_words_begin_with_the_reply() -> None:
    play = a_speech("Let")
    (begun,) = play.steps
    play.ask(OpenCalls(play.run.generation, "step_9"))
    assert play.steps == (begun,)
    play.reply("look_up", text="Let me see.")
    assert [(step.type, step.is_aside) for step in play.steps] == [
        ("message_creation", False),
        ("tool_calls", False),
    ]


@pytest.mark.parametrize("stop", [Stop.TOOLS, Stop.LENGTH, Stop.FILTER])
def test_words_that_follow_on_calls_have_a_step_beside_the_open_one(stop: Stop) -> None:
    play = a_begun_round()
    play.speak("Let")
    play.reply("look_up", text="Let me see.", stop=stop)
    assert [(step.type, step.is_aside) for step in play.steps] == [
        ("tool_calls", False),
        ("message_creation", True),
    ]
    assert play.messages[-1].content == (text_part("Let me see."),)


def test_words_and_calls_that_were_both_begun_are_one_turn() -> None:
    play = a_begun_round()
    play.speak("Let")
    begun = [step.id for step in play.steps]
    (call,) = play.reply("look_up", text="Let me see.", usage=TEN)
    assert [step.id for step in play.steps] == begun
    message, asked = play.world.entries[-2:]
    assert isinstance(asked, CallRound)
    assert build("", grouped(play.world.entries)).items[1] == Said("Let me see.", asked.calls)
    assert (message, play.call(call).step_id in begun) == (play.messages[-1], True)


def test_calls_without_words_end_the_message_that_was_begun() -> None:
    play = a_speech("")
    play.reply("look_up")
    assert play.messages[-1].status is MessageStatus.COMPLETED
    assert [step.status for step in play.steps] == [StepStatus.COMPLETED, StepStatus.IN_PROGRESS]


def test_a_cap_ends_the_calls_that_were_begun_without_running_them() -> None:
    play = a_turn(max_completion_tokens=1)
    play.begin_calls()
    play.speak("Let me")
    play.reply("look_up", text="Let me see.", usage=TEN)
    assert (play.status, play.calls) == (RunStatus.INCOMPLETE, ())
    assert play.messages[-1].status is MessageStatus.COMPLETED
    assert [step.status for step in play.steps] == [StepStatus.COMPLETED] * 2
    assert [step.usage for step in play.steps] == [None, TEN]


# -- the log -------------------------------------------------------------------------------------


def test_a_late_result_retires_the_log_anew_only_after_the_end() -> None:
    play = a_round("look_up", "ask_user")
    lost = play.claim(play.calls[0])
    held = play.claim(play.send_again(play.lose(lost)))
    play.finish(lost)
    assert (play.events, play.effects(RetireLog)) == ([EventType.CALL_LATE], [])
    play.cancel()
    play.finish(held)
    assert (play.events, play.effects(RetireLog)) == ([EventType.CALL_LATE], [RetireLog()])


def test_a_lost_turn_does_not_retire_the_log() -> None:
    play = a_speech()
    play.requeue()
    assert play.effects(RetireLog) == []
