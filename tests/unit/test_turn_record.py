"""What is kept of a turn."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.commands import Compact, RequeueTurn, TurnFailed
from orchestrator.decisions import KeepTurn
from orchestrator.records import Usage
from orchestrator.turn_record import Compaction, TurnRecord, is_within, spans
from tests.unit.play import a_cancelled_turn, a_turn, an_expired_run

RECORD = TurnRecord(
    turn=0,
    generation=1,
    api="openai",
    model="gpt-x",
    tool_choice="auto",
    max_completion_tokens=None,
    max_output_tokens=8_192,
    shown=((0, 3),),
    asked_ms=0,
    latency_ms=5,
)


@given(places=st.sets(st.integers(0, 60)))
def test_ranges_hold_exactly_the_places_they_are_made_of(places: set[int]) -> None:
    found = spans(places)
    assert {place for place in range(70) if is_within(place, found)} == places
    assert all(last + 1 < first for (_, last), (first, _) in pairwise(found))


def test_a_turn_is_kept_whether_it_was_answered_or_not() -> None:
    answered = a_turn()
    answered.reply(text="Here.", record=RECORD)
    assert answered.effects(KeepTurn) == [KeepTurn(RECORD)]
    failed = a_turn()
    failed.ask(TurnFailed(1, "server_error", "It broke.", record=RECORD))
    assert failed.effects(KeepTurn) == [KeepTurn(RECORD)]


def test_a_turn_that_is_handed_back_or_summarised_is_kept_as_far_as_it_is_known() -> None:
    given = a_turn()
    given.ask(RequeueTurn(1, 2, RECORD))
    assert given.effects(KeepTurn) == [KeepTurn(RECORD)]
    assert given.run.failed_attempts == 2

    attempt = Compaction(replaced=((0, 0),), latency_ms=1)
    summarised = a_turn()
    record = RECORD.but(compactions=(attempt, attempt))
    summarised.ask(Compact(1, "Little.", ((0, 0),), None, record))
    kept = RECORD.but(compactions=(attempt, attempt.but(seq=1)))
    assert summarised.effects(KeepTurn) == [KeepTurn(kept)]
    failed = a_turn()
    failed.ask(Compact(1, None, ((0, 0),), None, record))
    assert failed.effects(KeepTurn) == [KeepTurn(record)]


def test_a_request_that_was_under_way_when_its_run_ended_was_aborted_then() -> None:
    play = a_cancelled_turn()
    asked = RECORD.but(asked_ms=play.now_ms - 300, latency_ms=None)
    assert asked.as_ended_with(play.run) == asked, "it may still be answered"
    play.confirm_cancel()
    assert asked.as_ended_with(play.run) == asked.but(latency_ms=300, stop="run_cancelled")
    early = asked.but(asked_ms=play.now_ms + 5)
    assert early.as_ended_with(play.run).latency_ms == 0, "clocks differ"


def test_the_end_of_a_run_changes_no_request_that_was_over_or_was_never_made() -> None:
    play = an_expired_run()
    assert RECORD.as_ended_with(play.run) == RECORD
    unasked = RECORD.but(asked_ms=None, latency_ms=None)
    assert unasked.as_ended_with(play.run) == unasked
    asked = RECORD.but(asked_ms=play.run.deadline_ms - 7, latency_ms=None)
    assert asked.as_ended_with(play.run) == asked.but(latency_ms=7, stop="run_expired")


def test_a_prompt_is_known_once_it_was_sent_or_cut() -> None:
    assert RECORD.but(shown=()).has_prompt, "an empty thread"
    assert RECORD.but(asked_ms=None).has_prompt
    assert not RECORD.but(shown=(), asked_ms=None).has_prompt


def test_a_record_costs_the_same_however_long_the_conversation_is() -> None:
    long = RECORD.but(shown=((0, 0), (9_000, 10_000)), dropped={"context_window": ((1, 8_999),)})
    assert len(long.model_dump_json()) < 500


def test_what_a_turn_has_spent_includes_its_summaries() -> None:
    made = Compaction(seq=4, replaced=((0, 3),), usage=Usage(prompt_tokens=5), latency_ms=1)
    failed = Compaction(replaced=((0, 3),), latency_ms=1, failure="Overloaded.")
    record = RECORD.but(usage=Usage(prompt_tokens=7), compactions=(failed, made))
    assert record.spent == Usage(prompt_tokens=12)
    assert record.but(usage=None).spent is None, "of a turn that is not counted nothing is known"
