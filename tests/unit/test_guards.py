"""What the core makes of guardrails: verdicts, refusals, and what models are shown from then on."""

import pytest

from orchestrator.commands import IfBusy, ProposedCall, Stop
from orchestrator.conversation import Answered, Heard, Item, Said, build, grouped
from orchestrator.decide.calls import error_text
from orchestrator.decisions import EventType
from orchestrator.errors import StaleTurn
from orchestrator.records import (
    CallRound,
    CallState,
    Firing,
    Guarded,
    GuardPoint,
    Message,
    Output,
)
from orchestrator.states import RunStatus
from tests.unit.play import Play, a_cancelled_turn, a_round, a_run, a_turn, text_part

FIRING = Firing(rule="no_spoilers", on=GuardPoint.OUTPUT, verdict="rewrite", subject="msg_1")


def shown(play: Play) -> list[Item]:
    """What the model of the next turn is shown."""
    return list(build("", grouped(play.world.entries)).items)


def details(play: Play) -> list[str | None]:
    """What the last verb told of guardrails."""
    events = play.decision.events
    return [event.detail for event in events if event.type is EventType.GUARD_FIRED]


# -- what comes in ---------------------------------------------------------------------------------


def test_the_model_is_shown_the_words_of_the_guardrail_and_the_client_its_own() -> None:
    play = a_turn()
    play.guard(0, text="What next?")
    assert shown(play) == [Heard((text_part("What next?"),))]
    assert play.messages[0].content == (text_part("What should I read next?"),)
    assert details(play) == ["no_names (input) rewrote msg_1"]
    assert play.status is RunStatus.IN_PROGRESS


def test_a_later_run_is_shown_the_words_of_the_guardrail_too() -> None:
    play = a_turn()
    play.guard(0, text="What next?")
    play.reply(text="Read Dune.")
    play.create("And then?")
    assert [item.text for item in shown(play)] == ["What next?", "Read Dune.", "And then?"]


def test_what_was_looked_at_is_not_looked_at_again() -> None:
    play = a_turn()
    play.guard()
    assert play.world.thread.guarded_seq == 1
    play.reply("ask_user")
    assert play.world.thread.guarded_seq == 1


def test_a_stopped_message_ends_the_run_with_a_refusal() -> None:
    play = a_turn()
    play.guard(0, text="[withheld]", refusal="Not here.")
    assert play.status is RunStatus.COMPLETED
    assert play.messages[-1].content == ({"type": "refusal", "refusal": "Not here."},)
    assert [step.status for step in play.steps] == ["completed"]
    assert play.events[0] is EventType.GUARD_FIRED
    assert EventType.MESSAGE_DELTA in play.events
    assert details(play) == ["no_names (input) stopped msg_1: Not here."]
    assert (play.run.usage, play.run.stopped_by) == (None, "no_names")
    play.create("Something else.")
    assert [item.text for item in shown(play)] == ["[withheld]", "Not here.", "Something else."]


def test_a_run_that_is_being_cancelled_may_still_be_refused() -> None:
    play = a_cancelled_turn()
    play.guard(0, refusal="Not here.")
    assert play.status is RunStatus.COMPLETED


def test_an_engine_that_lost_the_turn_has_no_say() -> None:
    play = a_turn()
    play.requeue()
    with pytest.raises(StaleTurn):
        play.guard(0, generation=1)
    play.start()
    with pytest.raises(StaleTurn):
        play.guard(0, refusal="Not here.", generation=1)


def test_once_the_model_speaks_it_is_too_late_for_what_it_was_shown() -> None:
    play = a_turn()
    play.speak("Let me")
    with pytest.raises(StaleTurn):
        play.guard(0)


def test_a_rollback_takes_verdicts_away_so_all_is_looked_at_again() -> None:
    play = Play()
    play.add("My name is Ann.")
    play.create("What next?")
    play.start()
    play.guard(0, 1)
    play.reply("ask_user")
    play.text(IfBusy.ROLLBACK, "No, wait.")
    assert not [entry for entry in play.world.entries if isinstance(entry, Guarded)]
    assert play.world.thread.guarded_seq == 0


def test_pictures_stay_with_other_words_and_go_with_what_is_stopped() -> None:
    picture = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    message = Message(
        seq=0,
        id="msg_1",
        thread_id="thread_1",
        created_ms=0,
        role="user",
        content=(text_part("Ann"), picture, text_part("and Bob")),
    )
    words = Guarded(seq=1, run_id="run_1", of_seq=0, text="…")
    (rewritten,) = grouped([message, words])
    (stopped,) = grouped([message, words.but(is_stopped=True)])
    assert rewritten.items == (Heard((text_part("…"), picture)),)
    assert stopped.items == (Heard((text_part("…"),)),)
    assert rewritten.seqs == (0, 1)


def test_a_verdict_on_an_entry_that_is_gone_or_is_no_text_changes_nothing() -> None:
    play = a_round("ask_user")
    (asked,) = [entry for entry in play.world.entries if entry.kind == "calls"]
    before = shown(play)
    verdicts = [Guarded(seq=9, run_id="run_1", of_seq=seq, text="…") for seq in (asked.seq, 7)]
    assert list(build("", grouped([*play.world.entries, *verdicts])).items) == before


def test_the_model_is_shown_the_guarded_output_and_the_ledger_keeps_its_own() -> None:
    play = a_round("look_up")
    play.finish(play.claim(play.calls[0]), "ann@example.org")
    play.start()
    output = next(entry for entry in play.world.entries if isinstance(entry, Output))
    play.guard(output.seq, text="(an address)")
    assert shown(play)[-1] == Answered("call_1", "look_up", "(an address)")
    assert play.outputs["call_1"] == "ann@example.org"


# -- what goes out ---------------------------------------------------------------------------------


def test_what_fired_on_an_answer_is_told_before_its_end() -> None:
    play = a_turn()
    play.reply(text="It ends well.", firings=(FIRING,))
    assert play.events[0] is EventType.GUARD_FIRED
    assert details(play) == ["no_spoilers (output) rewrote msg_1"]


def test_a_stopped_answer_is_a_refusal() -> None:
    play = a_turn()
    stops = FIRING.but(verdict="stop")
    play.reply(refusal="No spoilers.", firings=(FIRING, stops), stop=Stop.DONE)
    assert (play.status, play.run.stopped_by) == (RunStatus.COMPLETED, "no_spoilers")
    assert play.messages[-1].content == ({"type": "refusal", "refusal": "No spoilers."},)


@pytest.mark.parametrize("tool", ["look_up", "ask_user"])
def test_whoever_executes_a_call_gets_the_arguments_of_the_guardrail(tool: str) -> None:
    play = a_turn()
    asked = ProposedCall("call_1", tool, '{"a": 2}', asked_arguments='{"a": 1}')
    (call,) = play.reply(asked)
    assert (call.arguments, call.asked_arguments) == ('{"a": 2}', '{"a": 1}')
    (asked_round,) = [entry for entry in play.world.entries if isinstance(entry, CallRound)]
    assert asked_round.calls[0].arguments == '{"a": 1}'
    if tool == "look_up":
        play.finish(play.claim(call))
    else:
        play.submit({"call_1": "yes"})
    said = shown(play)[1]
    assert isinstance(said, Said)
    assert said.calls[0].arguments == '{"a": 2}'


def test_an_operator_who_edits_guarded_arguments_leaves_the_models_own_on_record() -> None:
    play = a_turn()
    (call,) = play.reply(ProposedCall("call_1", "refund", '{"a": 2}', asked_arguments='{"a": 1}'))
    call = play.approve(call, '{"a": 3}')
    assert (call.arguments, call.asked_arguments) == ('{"a": 3}', '{"a": 1}')


def test_a_stopped_call_is_answered_and_never_executed() -> None:
    play = a_turn()
    refusal = error_text("guardrail", "no_files: Not that one.")
    stops = FIRING.but(on=GuardPoint.TOOL_INPUT, verdict="stop")
    asked = ProposedCall("call_1", "look_up", "{}", refusal=refusal)
    (call,) = play.reply(asked, firings=(stops,))
    assert (call.state, call.attempts) == (CallState.FAILED, 0)
    assert (play.status, play.run.stopped_by) == (RunStatus.QUEUED, None)


def test_without_guardrails_the_watermark_stays() -> None:
    play = a_run()
    play.start()
    play.reply(text="Read Dune.")
    assert play.world.thread.guarded_seq == 0
