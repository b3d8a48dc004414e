"""Scripted models as the engine meets them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from orchestrator.commands import Stop
from orchestrator.errors import ModelError
from orchestrator.llm.protocol import CallDelta, Reply, ReplyCall, TextDelta
from orchestrator.llm.scripted import ScriptedModel
from orchestrator.records import Usage
from tests.llm.turns import heard, played, tool_round, turn_request


async def inline(*turns: dict[str, Any], turn: int = 0, failed_attempts: int = 0) -> Reply:
    script = heard(json.dumps({"turns": turns}))
    request = turn_request("scripted/inline", [script], turn=turn, failed_attempts=failed_attempts)
    return (await played(ScriptedModel(), request))[1]


async def failure(*turns: dict[str, Any], failed_attempts: int = 0) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await inline(*turns, failed_attempts=failed_attempts)
    return caught.value


async def test_echo_says_what_the_user_said_last_word_by_word() -> None:
    items = [heard("Old"), heard("Good  day,\nall {{ of }} you "), *tool_round("find", "x")]

    deltas, reply = await played(ScriptedModel(), turn_request("scripted/echo", items))

    assert reply == Reply("Good  day,\nall {{ of }} you ")
    assert deltas[:3] == [TextDelta("Good  "), TextDelta("day,\n"), TextDelta("all ")]


async def test_echo_of_nothing_is_empty() -> None:
    assert await played(ScriptedModel(), turn_request("scripted/echo")) == ([], Reply(""))


async def test_a_named_script_is_played(tmp_path: Path) -> None:
    (tmp_path / "greet.yaml").write_text("turns: [{text: 'You said {{ user }}.'}]")
    request = turn_request("scripted/greet", [heard("Hello")])

    _, reply = await played(ScriptedModel(tmp_path), request)

    assert reply.text == "You said Hello."


async def test_finished_turns_and_failed_attempts_count_alike() -> None:
    turns = [{"text": "a"}, {"text": "b"}, {"text": "c"}]
    texts = [
        (await inline(*turns, turn=turn, failed_attempts=failed)).text
        for turn, failed in [(0, 0), (1, 0), (0, 1), (1, 1), (2, 1), (9, 9)]
    ]
    assert texts == ["a", "b", "b", "c", "done", "done"]


async def test_calls_come_in_pieces_under_ids_that_repeat() -> None:
    arguments = {"city": "Trondheim", "days": [1, 2], "ü": None}
    script = {"tool_calls": [{"name": "get", "arguments": arguments}, {"name": "now"}]}
    request = turn_request("scripted/inline", [heard(json.dumps({"turns": [script] * 2}))])

    deltas, reply = await played(ScriptedModel(), request)

    text = '{"city":"Trondheim","days":[1,2],"ü":null}'
    assert reply.calls == (ReplyCall("get", text, "call_1"), ReplyCall("now", "{}", "call_2"))
    assert reply.stop is Stop.TOOLS
    assert deltas == [
        CallDelta(0, "get", text[:16]),
        CallDelta(0, None, text[16:32]),
        CallDelta(0, None, text[32:]),
        CallDelta(1, "now", "{}"),
    ]


@pytest.mark.parametrize("raw", ["", '{"a": ', "null", "{{ user }}", "\x00"])
async def test_arguments_given_as_a_string_are_sent_raw(raw: str) -> None:
    reply = await inline({"tool_calls": [{"name": "get", "arguments": raw}]})
    assert [call.arguments for call in reply.calls] == [raw]


async def test_text_and_arguments_refer_to_earlier_outputs() -> None:
    calls = [{"name": "get", "arguments": {"id": "{{ calls[0].id }}"}}]
    script = heard(json.dumps({"turns": [{"text": "{{ outputs.find.id }}", "tool_calls": calls}]}))
    request = turn_request("scripted/inline", [script, *tool_round("find", '{"id": 7}')])

    _, reply = await played(ScriptedModel(), request)

    assert (reply.text, reply.calls[0].arguments) == ("7", '{"id":7}')


async def test_usage_is_unknown_unless_the_script_says_it() -> None:
    usage = {"prompt_tokens": 5, "completion_tokens": 3}
    assert (await inline({"text": "a"})).usage is None
    assert (await inline({"usage": usage})).usage == Usage(**usage)


@pytest.mark.parametrize(
    ("finish_reason", "stop"),
    [
        ("stop", Stop.DONE),
        ("length", Stop.LENGTH),
        ("content_filter", Stop.FILTER),
        ("tool_calls", Stop.DONE),
    ],
)
async def test_the_finish_reason_says_why_it_stopped(finish_reason: str, stop: Stop) -> None:
    assert (await inline({"text": "a", "finish_reason": finish_reason})).stop is stop


async def test_an_empty_entry_says_nothing() -> None:
    assert await inline({}) == Reply(None)


@pytest.mark.parametrize(
    ("status", "code", "is_retryable"),
    [
        (429, "rate_limit_exceeded", True),
        (500, "server_error", True),
        (503, "server_error", True),
        (400, "invalid_prompt", False),
        (401, "server_error", False),
    ],
)
async def test_an_error_fails_the_attempt_as_over_http(
    status: int, code: str, is_retryable: bool
) -> None:
    error = await failure({"error": {"status": status, "message": "No."}})
    assert (error.last_error_code, error.is_retryable) == (code, is_retryable)
    assert str(error) == "No."


async def test_after_its_times_an_error_gives_way_to_the_next_entry() -> None:
    turns: list[dict[str, Any]] = [{"error": {"status": 500}, "times": 2}, {"text": "a"}]
    for failed in (0, 1):
        await failure(*turns, failed_attempts=failed)
    assert (await inline(*turns, failed_attempts=2)).text == "a"


async def test_an_error_beside_text_breaks_the_stream_off() -> None:
    script = heard(json.dumps({"turns": [{"text": "Half an", "error": {"status": 500}}]}))
    stream = ScriptedModel().stream(turn_request("scripted/inline", [script]))

    assert [await anext(stream), await anext(stream)] == [TextDelta("Half "), TextDelta("an")]
    with pytest.raises(ModelError):
        await anext(stream)


async def test_a_wrong_message_and_a_wrong_file_blame_their_authors(tmp_path: Path) -> None:
    (tmp_path / "play.yaml").write_text("turns: [{text: '{{ outputs.x }}'}]")
    assert (await failure({"text": "{{ outputs.x }}"})).last_error_code == "invalid_prompt"
    with pytest.raises(ModelError) as caught:
        await played(ScriptedModel(tmp_path), turn_request("scripted/play"))
    assert caught.value.last_error_code == "server_error"


async def test_delays_come_before_the_first_token_and_between_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []

    async def note(seconds: float) -> None:
        told.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", note)
    script = {"text": "a b", "tool_calls": [{"name": "get"}], "delay_s": 3, "chunk_delay_s": 0.5}
    request = turn_request("scripted/inline", [heard(json.dumps({"turns": [script]}))])
    async for item in ScriptedModel().stream(request):
        told += [type(item)]

    assert told == [3.0, TextDelta, 0.5, TextDelta, 0.5, CallDelta, Reply]


async def test_calls_may_be_streamed_before_the_words() -> None:
    turn = {"text": "I look.", "tool_calls": [{"name": "find"}], "calls_first": True}
    script = heard(json.dumps({"turns": [turn]}))
    deltas, _ = await played(ScriptedModel(), turn_request("scripted/inline", [script]))
    assert deltas == [CallDelta(0, "find", "{}"), TextDelta("I "), TextDelta("look.")]


async def test_a_model_may_decline() -> None:
    assert await inline({"refusal": "No."}) == Reply(None, refusal="No.")
