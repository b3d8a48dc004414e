"""What is kept of a turn."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from orchestrator.commands import TurnFailed
from orchestrator.decisions import KeepTurn
from orchestrator.records import Usage
from orchestrator.turn_record import Compaction, TurnRecord, is_within, spans
from tests.unit.play import a_turn

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


def test_a_record_costs_the_same_however_long_the_conversation_is() -> None:
    long = RECORD.but(shown=((0, 0), (9_000, 10_000)), dropped={"context_window": ((1, 8_999),)})
    assert len(long.model_dump_json()) < 500


def test_what_a_turn_has_spent_includes_its_summaries() -> None:
    made = Compaction(seq=4, replaced=((0, 3),), usage=Usage(prompt_tokens=5), latency_ms=1)
    failed = Compaction(replaced=((0, 3),), latency_ms=1, failure="Overloaded.")
    record = RECORD.but(usage=Usage(prompt_tokens=7), compactions=(failed, made))
    assert record.spent == Usage(prompt_tokens=12)
    assert record.but(usage=None).spent is None, "of a turn that is not counted nothing is known"
