"""What is not as expected is said in a sentence, and only that."""

from typing import Any

import pytest

from cli.course import Call
from cli.suite import Expect
from cli.verdict import Played, complaint


def call(name: str, arguments: str = "{}") -> Call:
    return Call("call_1", name, arguments)


def played(*calls: Call, **changes: Any) -> Played:
    about: dict[str, Any] = {
        "thread_id": "thread_1",
        "run_id": "run_1",
        "model": "gpt-x",
        "status": "completed",
        "reason": None,
        "answer": "It is 4 °C in Oslo.",
        "calls": calls,
        "turns": 2,
        "tokens": 100,
        "cost_usd": None,
        "seconds": 1.5,
    }
    return Played(**(about | changes))


def expect(**checks: Any) -> Expect:
    return Expect.model_validate(checks)


OSLO = call("get_weather", '{"city": "Oslo", "days": 2}')
ROME = call("get_weather", '{"city": "Rome"}')
MAIL = call("send_mail")


@pytest.mark.parametrize(
    "checks",
    [
        {},
        {"tools": ["get_weather", "send_mail"]},
        {"tools": ["send_mail", {"name": "get_weather", "arguments": {"city": "Rome"}}]},
        {"tools": ["get_weather", {"name": "get_weather", "arguments": {"city": "Oslo"}}]},
        {"tools": ["get_weather", "send_mail"], "order": "listed"},
        {"tools": ["get_weather", "get_weather", "send_mail"], "order": "exact"},
        {"forbidden_tools": ["send_letter"]},
        {"answer": {"contains": ["4 °C", "Oslo"], "not_contains": "Rome", "matches": r"\d °C"}},
        {"answer": {"equals": "It is 4 °C in Oslo.\n"}},
        {"max_turns": 2, "max_tokens": 100, "max_seconds": 1.5},
    ],
)
def test_what_is_as_expected_is_not_complained_of(checks: dict[str, Any]) -> None:
    assert complaint(expect(**checks), played(OSLO, ROME, MAIL)) is None


MADE = (
    'it called get_weather({"city": "Oslo", "days": 2}), get_weather({"city": "Rome"}),'
    " send_mail({})"
)


@pytest.mark.parametrize(
    ("checks", "sentence"),
    [
        ({"tools": ["send_mail"] * 2}, f"did not call send_mail; {MADE}"),
        (
            {"tools": [{"name": "get_weather", "arguments": {"city": "Bonn"}}]},
            f'did not call get_weather({{"city": "Bonn"}}); {MADE}',
        ),
        (
            {"tools": ["send_mail", "get_weather"], "order": "listed"},
            f"did not call get_weather in this order; {MADE}",
        ),
        ({"tools": ["get_weather"], "order": "exact"}, f"did not call exactly get_weather; {MADE}"),
        ({"tools": [], "order": "exact"}, f"did not call exactly nothing; {MADE}"),
        ({"forbidden_tools": "send_mail"}, "called send_mail, which is forbidden"),
        ({"status": "failed"}, "the run is completed, not failed"),
        (
            {"answer": {"contains": ["Oslo", "Rome"]}},
            "the answer does not contain 'Rome': It is 4 °C in Oslo.",
        ),
        ({"answer": {"not_contains": "Oslo"}}, "the answer contains 'Oslo': It is 4 °C in Oslo."),
        (
            {"answer": {"matches": "^4"}},
            "the answer does not match '^4': It is 4 °C in Oslo.",
        ),
        ({"answer": {"equals": "4"}}, "the answer is not '4': It is 4 °C in Oslo."),
        ({"answer": {"equals": 4}}, "the answer is not JSON: It is 4 °C in Oslo."),
        ({"max_turns": 1}, "took 2 turns, more than 1"),
        ({"max_tokens": 99}, "used 100 tokens, more than 99"),
        ({"max_seconds": 1}, "took 1.5 s, more than 1 s"),
    ],
)
def test_the_first_thing_that_is_not_as_expected_is_said(
    checks: dict[str, Any], sentence: str
) -> None:
    assert complaint(expect(**checks), played(OSLO, ROME, MAIL)) == sentence


def test_why_a_run_ended_is_part_of_the_sentence() -> None:
    failed = played(status="failed", reason="429: busy")
    assert complaint(expect(), failed) == "the run is failed, not completed: 429: busy"


def test_an_answer_may_have_to_be_json() -> None:
    answer = played(answer='{"celsius": 4}')
    assert complaint(expect(answer={"equals": {"celsius": 4}}), answer) is None
    said = complaint(expect(answer={"equals": {"celsius": 5}}), answer)
    assert said == "the answer is not {\"celsius\": 5}: {'celsius': 4}"


def test_an_answer_may_have_to_fit_a_schema() -> None:
    schema = {"type": "object", "properties": {"celsius": {"type": "number"}}}
    checks = expect(answer={"json_schema": schema})
    assert complaint(checks, played(answer='{"celsius": 4}')) is None
    said = complaint(checks, played(answer='{"celsius": "cold"}'))
    assert said == ('the answer does not fit the schema: celsius: "cold" is not of type "number"')
    assert complaint(checks, played(answer="[]")) == (
        'the answer does not fit the schema: the whole: [] is not of type "object"'
    )


def test_tokens_that_nobody_counted_are_within_no_limit() -> None:
    assert complaint(expect(max_tokens=5), played(tokens=None)) == "its tokens are not known"


def test_arguments_that_are_no_object_have_nothing_of_what_is_expected() -> None:
    checks = expect(tools=[{"name": "get_weather", "arguments": {"city": "Oslo"}}])
    for arguments in ("", "{", "[1]"):
        assert complaint(checks, played(call("get_weather", arguments)))
