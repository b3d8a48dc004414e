"""What a run that is played again begins with, and who answers its calls."""

from collections.abc import Sequence

import pytest

from orchestrator.commands import CreateRun, ProposedCall
from orchestrator.conversation import Said, build, grouped
from orchestrator.decisions import SendCall
from orchestrator.errors import CannotReplay
from orchestrator.records import (
    CallRound,
    CallState,
    Entry,
    Executor,
    Message,
    Run,
    Summary,
    ToolSpec,
)
from orchestrator.replay import past
from orchestrator.turn_record import TurnRecord, spans
from tests.unit.play import TTL_MS, Play, a_completed_run, a_round, a_turn, spec
from tests.unit.test_turn_record import RECORD


def played_twice() -> Play:
    """A thread with two runs, the second of which asked for a tool."""
    play = a_turn()
    play.reply(text="Read Dune.")
    play.add("I have.")
    play.create("So?")
    play.start()
    play.speak("Let me")
    play.requeue()
    play.start()
    play.reply("ask_user", text="One moment.")
    play.submit({play.calls[0].id: "yes"})
    play.start()
    play.reply(text="Read Emma.")
    play.add("Thanks.")
    return play


def first_turn(entries: Sequence[Entry], run: Run) -> TurnRecord:
    """What is kept of a first turn that was shown all there was but the first message."""
    places = [entry.seq for entry in entries if entry.run_id != run.id and entry.seq < 4]
    return RECORD.but(shown=spans(places[1:]), dropped={"last_messages": spans(places[:1])})


def test_a_replay_begins_with_what_was_there_before_the_run_and_nothing_later() -> None:
    play = played_twice()
    entries = play.world.entries
    before = past(play.run, [first_turn(entries, play.run)], entries)
    assert [entry.seq for entry in before] == [0, 1, 2, 3]
    assert before == entries[:4]


def test_what_the_run_itself_has_written_before_its_first_turn_is_left_out() -> None:
    play = played_twice()
    entries = play.world.entries
    with_void = RECORD.but(shown=((0, 4),))
    assert past(play.run, [with_void], entries) == entries[:4]


def test_a_summary_that_the_first_turn_was_shown_is_shown_again() -> None:
    play = played_twice()
    entries = play.world.entries
    summary = Summary(seq=4, run_id=play.run.id, turn=0, text="Books.", replaces=((0, 2),))
    turn = RECORD.but(shown=((3, 4),), dropped={"compact": ((0, 2),)})
    assert past(play.run, [turn], [*entries[:4], summary]) == (*entries[:4], summary)


def test_an_empty_thread_is_a_past_too() -> None:
    play = a_completed_run()
    assert past(play.run, [RECORD.but(shown=())], play.world.entries) == ()


def test_a_run_that_goes_on_cannot_be_replayed() -> None:
    with pytest.raises(CannotReplay, match="has not ended"):
        past(a_turn().run, [RECORD], ())


@pytest.mark.parametrize("turns", [[], [RECORD.but(turn=1)], [RECORD.but(shown=(), asked_ms=None)]])
def test_a_run_whose_model_was_never_asked_cannot_be_replayed(turns: list[TurnRecord]) -> None:
    with pytest.raises(CannotReplay, match="no model was asked"):
        past(a_completed_run().run, turns, ())


def test_a_run_cannot_be_replayed_when_what_it_was_shown_is_gone() -> None:
    play = played_twice()
    entries = play.world.entries
    turn = first_turn(entries, play.run)
    with pytest.raises(CannotReplay, match="deleted"):
        past(play.run, [turn], [entry for entry in entries if entry.seq != 2])
    assert past(play.run, [turn], entries[1:]) == entries[1:4]


def test_a_new_thread_keeps_the_places_of_its_past_and_goes_on_behind_it() -> None:
    entries = tuple(entry for entry in played_twice().world.entries if entry.seq not in {1, 4})
    other = (e.but(thread_id="thread_9") if isinstance(e, Message) else e for e in entries)
    play = Play()
    create = CreateRun("run_9", spec(), TTL_MS, {}, (play.message("Again."),), past=tuple(other))
    play.ask(create)
    play.run_id = "run_9"
    assert play.world.entries[:-1] == entries
    assert {message.thread_id for message in play.messages} == {play.world.thread.id}
    said = play.messages[-1]
    assert (said.seq, play.world.thread.active_from_seq) == (entries[-1].seq + 1,) * 2
    assert build("", grouped(play.world.entries[:-1])) == build("", grouped(entries))
    play.start()
    play.reply(text="Read Dune.")
    assert play.run.is_final


def test_a_client_that_answers_all_calls_is_given_those_that_workers_serve() -> None:
    wrong = ProposedCall("call_x", "update", "{", refusal="The arguments do not fit.")
    play = a_round("look_up", "refund", wrong, executor="client")
    assert [call.executor for call in play.calls] == [Executor.CLIENT] * 3
    assert [call.state for call in play.calls] == [CallState.REQUIRED] * 3
    assert play.effects(SendCall) == []


def test_a_name_that_the_run_does_not_declare_is_nobodys() -> None:
    play = a_round("missing", "look_up", executor="client")
    assert [call.executor for call in play.calls] == [Executor.REFUSED, Executor.CLIENT]


def test_outputs_of_pinned_tools_stay_pinned_whoever_answers() -> None:
    play = a_turn(executor="client")
    play.reply("look_up", published={"look_up": ToolSpec(name="look_up", pin_result=True)})
    (asked,) = (entry for entry in play.world.entries if isinstance(entry, CallRound))
    assert asked.calls[0].is_pinned


def test_an_answer_may_belong_to_other_arguments_than_the_models() -> None:
    play = a_round("ask_user")
    play.resolve(play.calls[0], "done", arguments='{"a":2}')
    (call,) = play.calls
    assert (call.arguments, call.asked_arguments) == ('{"a":2}', "{}")
    said = [item for item in build("", grouped(play.world.entries)).items if isinstance(item, Said)]
    assert said[-1].calls[0].arguments == '{"a":2}'
