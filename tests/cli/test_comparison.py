"""A recorded run beside its replay: where they part, and how that is shown."""

from cli.comparison import Difference, as_json, as_lines, comparable, first_difference
from cli.course import Call, End, Round
from cli.replay import answers


def asked(*calls: tuple[str, str], is_answered: bool = True, is_clients: bool = False) -> Round:
    """A round of calls by name and arguments; each output is its number."""
    return Round(
        tuple(
            Call(f"call_{n}", name, arguments, str(n), is_clients=is_clients)
            for n, (name, arguments) in enumerate(calls)
        ),
        is_answered,
    )


BOTH = asked(("look", '{"a": 1, "b": [2]}'), ("measure", ""))
ANSWER = End("completed", "It is 4.\nSo it is.")


def test_arguments_are_compared_as_json_and_calls_of_a_turn_in_any_order() -> None:
    replayed = (asked(("measure", "{}"), ("look", '{"b":[2],"a":1}')), ANSWER)
    assert first_difference((BOTH, ANSWER), replayed) is None


def test_arguments_that_are_not_json_are_compared_as_they_are() -> None:
    broken = asked(("look", '{"a'))
    assert first_difference((broken,), (broken,)) is None
    assert first_difference((broken,), (asked(("look", '{"b')),))


def test_a_call_more_or_less_is_a_difference() -> None:
    for other in (asked(("measure", "{}")), asked(*[("measure", "{}")] * 2, ("look", "{}"))):
        found = first_difference((BOTH, ANSWER), (other, ANSWER))
        assert found
        assert (found.turn, found.kind) == (0, "calls")


def test_other_words_are_a_difference_of_the_answer() -> None:
    found = first_difference((BOTH, ANSWER), (BOTH, End("completed", "It is 5.\nSo it is.")))
    assert found
    assert (found.turn, found.kind) == (1, "answer")
    assert as_lines((BOTH, ANSWER), found) == [
        'turn 0  look({"a": 1, "b": [2]}), measure({})',
        "turn 1  differs (answer):",
        "   completed",
        "  -It is 4.",
        "  +It is 5.",
        "   So it is.",
    ]


def test_another_end_is_a_difference_whatever_was_said() -> None:
    for end in (End("failed", None, "It broke."), asked(("look", "{}")), End("incomplete", "It")):
        found = first_difference((BOTH, ANSWER), (BOTH, end))
        assert found
        assert found.kind == "end"


def test_why_a_run_failed_may_be_told_in_other_words() -> None:
    recorded, replayed = End("failed", None, "429"), End("failed", None, "Busy.")
    assert first_difference((recorded,), (replayed,)) is None


def test_the_record_ends_where_nobody_answered() -> None:
    cut = asked(("look", "{}"), is_answered=False)
    recorded = (BOTH, cut, End("expired", None))
    assert comparable(recorded) == (BOTH, cut)
    assert first_difference(recorded, (BOTH, cut, ANSWER)) is None
    assert as_lines(recorded, None)[-2:] == ["The record ends here: expired", "No difference."]


def test_programs_are_told_what_was_recorded_and_what_was_replayed() -> None:
    assert as_json((BOTH, ANSWER), None) == {"same_turns": 2, "difference": None}
    found = Difference(0, asked(("look", "{}")), End("failed", None, "It broke."))
    assert as_json((BOTH, ANSWER), found) == {
        "same_turns": 0,
        "difference": {
            "turn": 0,
            "kind": "end",
            "recorded": {"calls": [{"name": "look", "arguments": "{}"}]},
            "replayed": {"status": "failed", "answer": None, "reason": "It broke."},
        },
    }


def test_equal_calls_get_their_outputs_in_order_and_refused_ones_none() -> None:
    known = asked(("look", "{}"), ("look", "{ }"), ("measure", "{}"))
    waiting = asked(("measure", ""), ("look", ""), ("look", ""), is_clients=True)
    assert [(call.name, body) for call, body in answers(waiting, known)] == [
        ("measure", {"output": "2"}),
        ("look", {"output": "0"}),
        ("look", {"output": "1"}),
    ]
    assert answers(known, known) == []
