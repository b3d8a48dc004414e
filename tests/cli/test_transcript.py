"""A model turn as the command shows it."""

from typing import Any

from cli.transcript import body, difference, head


def turn(**changes: Any) -> Any:
    plain: dict[str, Any] = {
        "turn": 7,
        "api": "openai",
        "model": "gpt-x",
        "shown": [[0, 0], [9, 12]],
        "dropped": {"context_window": [[1, 8]]},
        "counted_tokens": 700,
        "limit_tokens": 750,
        "failures": ["busy"],
        "compactions": [],
        "server_uses": {},
        "without": [],
        "continuations": 0,
        "asked_ms": 1_000,
        "latency_ms": 42,
        "stop": "tools",
        "usage": {"prompt_tokens": 690, "completion_tokens": 3, "cached_tokens": 600},
        "cost_usd": 0.0015,
        "request": {"messages": [{"role": "user"}]},
    }
    return plain | changes


def test_it_says_what_was_left_out_and_why() -> None:
    assert list(head(turn())) == [
        "turn      7 of gpt-x (openai)",
        "shown     0, 9-12",
        "left out  1-8 by context_window",
        "counted   700 tokens of 750",
        "failed    busy",
        "took      42 ms, ended with tools",
        "tokens    690 + 3, 600 cached, at $0.001500",
    ]


def test_a_turn_of_which_little_is_known_is_shown_too() -> None:
    bare = turn(shown=[], dropped={}, counted_tokens=None, failures=[], stop=None, usage=None)
    assert list(head(bare)) == [
        "turn      7 of gpt-x (openai)",
        "shown     nothing",
        "took      42 ms, ended with no answer",
    ]


def test_a_request_that_has_no_answer_yet_or_was_never_made_is_told_as_that() -> None:
    open_turn = turn(latency_ms=None, stop=None, usage=None)
    assert list(head(open_turn))[-1] == "took      no answer yet"
    assert "not asked" in list(head(open_turn | {"asked_ms": None}))[-1]


def test_summaries_and_what_a_model_refuses_to_be_told_are_named() -> None:
    usage = {"prompt_tokens": 300, "completion_tokens": 20, "cached_tokens": 0}
    made = {"seq": 17, "replaced": [[1, 16]], "usage": usage, "failure": None}
    failed = {"seq": None, "replaced": [[1, 16]], "usage": None, "failure": "Overloaded."}
    told = turn(compactions=[failed, made], without=["reasoning_effort"], server_uses={"find": 2})
    lines = list(head(told))
    assert "used      find 2 before" in lines
    assert "compacted 1-16, no summary: Overloaded." in lines
    assert "compacted 1-16, summary at 17, 300 + 20 tokens" in lines
    assert "without   reasoning_effort, which the model refuses" in lines


def test_an_answer_that_paused_is_said_to_have_gone_on() -> None:
    assert "went on   2 times, each time behind what it had said" in list(
        head(turn(continuations=2))
    )


def test_an_unknown_price_is_said_to_be_unknown() -> None:
    assert list(head(turn(cost_usd=None)))[-1].endswith("at an unknown price")


def test_the_difference_is_only_what_came_and_went() -> None:
    before = turn(request={"messages": [{"role": "user"}]})
    after = turn(request={"messages": [{"role": "user"}, {"role": "tool"}]})
    lines = list(difference(body(before), body(after)))
    assert any(line.startswith("+") and "tool" in line for line in lines)
    assert not any(line.startswith("-") and "user" in line for line in lines)
    assert list(difference(body(before), body(before))) == []
