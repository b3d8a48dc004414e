"""Streams of odd servers, put together again."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.commands import Stop
from orchestrator.errors import ModelError
from orchestrator.llm.chat_reply import ChatReply
from orchestrator.llm.protocol import CallDelta, Delta, Reply, ReplyCall, TextDelta
from orchestrator.records import Usage


def chunk(finish_reason: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish_reason}]}


def piece(
    arguments: Any = None, name: str | None = None, index: Any = 0, call_id: str | None = None
) -> dict[str, Any]:
    return {"index": index, "id": call_id, "function": {"name": name, "arguments": arguments}}


def calls(*pieces: dict[str, Any]) -> dict[str, Any]:
    return chunk(tool_calls=list(pieces))


def put_together(*chunks: dict[str, Any]) -> tuple[list[Delta], Reply]:
    """The deltas and the reply; both must tell the same."""
    chat = ChatReply()
    items = [item for each in chunks for item in chat.feed(each)] + list(chat.end())
    *deltas, reply = items
    assert isinstance(reply, Reply)
    told = [delta for delta in deltas if not isinstance(delta, Reply)]
    assert "".join(d.text for d in told if isinstance(d, TextDelta)) == (reply.text or "")
    for number, call in enumerate(reply.calls):
        own = [d for d in told if isinstance(d, CallDelta) and d.index == number]
        assert "".join(d.arguments for d in own) == call.arguments
        assert [d.name for d in own] == [call.name] + [None] * (len(own) - 1)
    return told, reply


def asked(*chunks: dict[str, Any]) -> list[tuple[str, str]]:
    return [(call.name, call.arguments) for call in put_together(*chunks)[1].calls]


def test_two_pieces_of_one_call_in_one_chunk_are_joined() -> None:
    first = calls(piece("", "add"), piece('{"a"'))
    assert asked(first, calls(piece(": 1}"))) == [("add", '{"a": 1}')]


def test_indexes_out_of_order_and_interleaved_keep_their_calls_apart() -> None:
    chunks = (
        calls(piece('{"n":', "second", index=1)),
        calls(piece('{"n":', "first", index=0), piece("2}", index=1)),
        calls(piece("1}", index=0)),
    )
    assert asked(*chunks) == [("second", '{"n":2}'), ("first", '{"n":1}')]


def test_a_name_may_be_split_or_repeated() -> None:
    assert asked(calls(piece("", "get_")), calls(piece("{}", "weather"))) == [("get_weather", "{}")]
    assert asked(calls(piece("{", "add")), calls(piece("}", "add"))) == [("add", "{}")]


def test_a_name_that_comes_late_is_told_before_the_arguments() -> None:
    deltas, _ = put_together(calls(piece('{"a"')), calls(piece(":1}", "add")))
    assert deltas == [CallDelta(0, "add", '{"a":1}')]


@pytest.mark.parametrize("whole", ['{"a": 1}', "{}"])
def test_arguments_replayed_at_the_end_count_once(whole: str) -> None:
    increments = [calls(piece(whole[0], "add")), calls(piece(whole[1:]))]
    assert asked(*increments, calls(piece(whole))) == [("add", whole)]


def test_a_piece_that_repeats_an_unfinished_text_is_no_replay() -> None:
    chunks = (calls(piece('{"', "add")), calls(piece('{"')), calls(piece('":1}')))
    assert asked(*chunks) == [("add", '{"{"":1}')]


def test_pieces_without_index_go_by_id_then_by_name_then_on() -> None:
    chunks = (
        calls(piece('{"n":', "first", index=None, call_id="x")),
        calls(piece("1}", index=None)),
        calls(piece('{"n":', "second", index=None, call_id="y")),
        calls(piece("2}", index=None, call_id="y")),
        calls(piece('{"n":3}', "second", index=None)),
    )
    assert asked(*chunks) == [
        ("first", '{"n":1}'),
        ("second", '{"n":2}'),
        ("second", '{"n":3}'),
    ]


def test_parallel_calls_that_all_have_index_0_are_kept_apart() -> None:
    chunks = (
        calls(piece('{"n":1}', "add", call_id="x")),
        calls(piece('{"n":1}', "add", call_id="y")),
    )
    assert asked(*chunks) == [("add", '{"n":1}'), ("add", '{"n":1}')]


def test_a_fresh_id_with_each_piece_is_still_one_call() -> None:
    chunks = (
        calls(piece('{"n":', "add", call_id="x")),
        calls(piece("1}", call_id="y")),
    )
    assert asked(*chunks) == [("add", '{"n":1}')]


def test_ids_that_repeat_or_are_missing_make_no_difference() -> None:
    _, reply = put_together(
        calls(piece("{}", "add", index=0, call_id="call_1")),
        calls(piece("{}", "add", index=1, call_id="call_1")),
        calls(piece("{}", "add", index=2, call_id="")),
    )
    assert [call.provider_id for call in reply.calls] == ["call_1", "call_1", None]


def test_arguments_that_come_as_an_object_become_their_text() -> None:
    assert asked(calls(piece({"a": 1}, "add"))) == [("add", '{"a": 1}')]


def test_a_call_without_arguments_is_told_at_the_end() -> None:
    deltas, reply = put_together(calls(piece("", "now")), chunk("tool_calls"))
    assert deltas == [CallDelta(0, "now", "")]
    assert reply.calls == (ReplyCall("now", ""),)


def test_empty_pieces_are_no_calls() -> None:
    _, reply = put_together(calls(piece("", "")), chunk("stop", content="Hello"))
    assert (reply.text, reply.calls, reply.stop) == ("Hello", (), Stop.DONE)


def test_halves_of_a_character_are_joined_over_chunks() -> None:
    deltas, reply = put_together(chunk(content="A \ud83c"), chunk(content="\udf78!"))
    assert deltas == [TextDelta("A "), TextDelta("🍸!")]
    assert reply.text == "A 🍸!"
    assert asked(calls(piece('{"a":"\ud83c', "add")), calls(piece('\udf78"}'))) == [
        ("add", '{"a":"🍸"}')
    ]


def test_half_a_character_alone_becomes_the_replacement_character() -> None:
    _, reply = put_together(chunk(content="\udf78 and \ud83c"), calls(piece("\ud83c", "a\ud83c")))
    assert reply.text == "\ufffd and \ufffd"
    assert reply.calls == (ReplyCall("a\ufffd", "\ufffd"),)


@pytest.mark.parametrize(
    ("finish_reason", "has_calls", "stop"),
    [
        ("stop", False, Stop.DONE),
        ("stop", True, Stop.TOOLS),
        ("tool_calls", True, Stop.TOOLS),
        ("tool_calls", False, Stop.DONE),
        (None, True, Stop.TOOLS),
        ("length", True, Stop.LENGTH),
        ("length", False, Stop.LENGTH),
        ("content_filter", False, Stop.FILTER),
        ("eos", False, Stop.DONE),
    ],
)
def test_the_calls_and_the_limits_say_why_it_stopped(
    finish_reason: str | None, has_calls: bool, stop: Stop
) -> None:
    said = calls(piece("{}", "add")) if has_calls else chunk(content="Hello")
    assert put_together(said, chunk(finish_reason))[1].stop is stop


def test_a_refusal_is_kept_apart_from_text() -> None:
    _, reply = put_together(chunk(refusal="I will "), chunk(refusal="not."))
    assert (reply.text, reply.refusal) == (None, "I will not.")


def test_the_last_usage_counts_and_none_stays_unknown() -> None:
    first = {"usage": {"prompt_tokens": 5, "completion_tokens": 1}}
    last = {"choices": None, "usage": {"prompt_tokens": 5, "completion_tokens": 3}}
    assert put_together(first, last, {"usage": None})[1].usage == Usage(
        prompt_tokens=5, completion_tokens=3
    )
    assert put_together({"usage": {}}, {"usage": {"prompt_tokens": None}})[1].usage is None


@pytest.mark.parametrize("odd", [-1, 10**20, True, 5.5, "5"])
def test_what_cannot_be_a_number_of_tokens_is_unknown(odd: Any) -> None:
    assert put_together({"usage": {"prompt_tokens": odd}})[1].usage is None


def test_no_more_tokens_are_cached_than_there_are_in_the_prompt() -> None:
    counts = {"prompt_tokens": 5, "prompt_tokens_details": {"cached_tokens": 7}}
    usage = put_together({"usage": counts})[1].usage
    assert usage == Usage(prompt_tokens=5, cached_tokens=5)


@pytest.mark.parametrize(
    ("error", "code", "is_retryable"),
    [
        ({"message": "busy", "code": 503}, "server_error", True),
        ({"message": "busy", "code": 20012}, "server_error", True),
        ({"message": "busy", "code": 429}, "rate_limit_exceeded", True),
        ({"message": "busy", "type": "rate_limit_error"}, "rate_limit_exceeded", True),
        ({"message": "bad", "code": 400}, "invalid_prompt", False),
        ("busy", "server_error", True),
    ],
)
def test_an_error_within_the_stream_is_a_failure(error: Any, code: str, is_retryable: bool) -> None:
    with pytest.raises(ModelError, match=r"bad|busy") as caught:
        put_together(chunk(content="Half"), {"error": error})
    assert (caught.value.last_error_code, caught.value.is_retryable) == (code, is_retryable)


@pytest.mark.parametrize(
    "odd",
    [
        {"choices": [{"delta": None, "finish_reason": {"odd": 1}}]},
        {"choices": ["odd", {"delta": {"content": ["odd"], "tool_calls": "odd"}}]},
        {"choices": [{"delta": {"tool_calls": [None, {"function": None}, {"index": "odd"}]}}]},
        {"choices": {}, "usage": 3},
    ],
)
def test_what_makes_no_sense_is_passed_over(odd: dict[str, Any]) -> None:
    assert put_together(odd, chunk(content="Hello"))[1].text == "Hello"


@settings(max_examples=50, deadline=None)
@given(
    texts=st.lists(
        st.dictionaries(st.text(max_size=3), st.text(max_size=5)), min_size=1, max_size=4
    ),
    data=st.data(),
)
def test_calls_survive_any_split_and_any_order_between_them(
    texts: list[dict[str, str]], data: st.DataObject
) -> None:
    whole = [json.dumps(text) for text in texts]
    rest = list(enumerate(whole))
    pieces = [piece("", f"tool_{index}", index=index) for index, _ in rest]
    while rest:
        index, text = rest.pop(data.draw(st.integers(0, len(rest) - 1)))
        size = data.draw(st.integers(1, len(text)))
        pieces.append(piece(text[:size], index=index))
        if text[size:]:
            rest.append((index, text[size:]))
    chunks = []
    while pieces:
        size = data.draw(st.integers(1, len(pieces)))
        chunks.append(calls(*pieces[:size]))
        pieces = pieces[size:]
    assert asked(*chunks) == [(f"tool_{index}", text) for index, text in enumerate(whole)]
