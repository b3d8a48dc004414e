"""The OpenAI-compatible adapter against a real socket: streams, failures, closing."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from pydantic import SecretStr

from orchestrator.commands import Stop
from orchestrator.errors import ModelError
from orchestrator.llm.openai_chat import OpenAIChat
from orchestrator.llm.protocol import CallDelta, ReplyCall, TextDelta
from orchestrator.llm.routing import OFFICIAL, Models
from orchestrator.llm.unheeded import Unheeded
from orchestrator.records import Usage
from orchestrator.settings import Settings
from tests.llm.chat_server import (
    DONE,
    DROP,
    HANG,
    ChatServer,
    event,
    stop_event,
    text_event,
)
from tests.llm.conftest import KEY
from tests.llm.turns import Notes, heard, played, turn_request

REQUEST = turn_request("gpt-x", [heard("Hello")], system="Be kind.")


async def failure(models: Models) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await played(models.model_for("gpt-x"), REQUEST)
    return caught.value


async def test_an_answer_is_streamed_and_its_usage_counted(
    chat_server: ChatServer, models: Models
) -> None:
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    chat_server.answers(
        text_event("Good "),
        text_event("day"),
        stop_event("stop"),
        event({"choices": [], "usage": usage}),
        DONE,
    )

    deltas, reply = await played(models.model_for("gpt-x"), REQUEST)

    assert deltas == [TextDelta("Good "), TextDelta("day")]
    assert (reply.text, reply.calls, reply.stop) == ("Good day", (), Stop.DONE)
    assert reply.usage == Usage(prompt_tokens=7, completion_tokens=2)


async def test_the_endpoint_gets_the_conversation_and_the_key(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(text_event("Yes"), stop_event("stop"), DONE)

    await played(models.model_for("gpt-x"), REQUEST)

    (asked,) = chat_server.asked
    assert asked.line == "POST /v1/chat/completions HTTP/1.1"
    assert asked.headers["authorization"] == f"bearer {KEY}"
    assert asked.body == {
        "model": "gpt-x",
        "messages": [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Hello"},
        ],
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def test_calls_are_streamed_with_their_names_once(
    chat_server: ChatServer, models: Models
) -> None:
    def piece(**call: Any) -> bytes:
        return event({"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, **call}]}}]})

    chat_server.answers(
        piece(id="call_9", type="function", function={"name": "add", "arguments": ""}),
        piece(function={"arguments": '{"a":'}),
        piece(function={"arguments": "1}"}),
        stop_event("tool_calls"),
        DONE,
    )

    deltas, reply = await played(models.model_for("gpt-x"), REQUEST)

    assert deltas == [CallDelta(0, "add", '{"a":'), CallDelta(0, None, "1}")]
    assert reply.calls == (ReplyCall("add", '{"a":1}', "call_9"),)
    assert reply.stop is Stop.TOOLS


async def test_characters_survive_being_cut_at_every_byte(
    chat_server: ChatServer, models: Models
) -> None:
    said = 'data: {"choices":[{"delta":{"content":"Grüße 🍸\\u2028"}}]}\n\n'.encode()
    chat_server.answers(*(bytes([byte]) for byte in said), stop_event("stop"), DONE)

    _, reply = await played(models.model_for("gpt-x"), REQUEST)

    assert reply.text == "Grüße 🍸\u2028"


async def test_comments_and_unknown_events_are_passed_over(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(
        b": ping\n\n", b"retry: 5\n\n", event([]), event({}), text_event("Yes"), DONE
    )

    _, reply = await played(models.model_for("gpt-x"), REQUEST)

    assert reply.text == "Yes"


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param((text_event("Half an ans"), DROP), id="the connection breaks"),
        pytest.param((DROP,), id="the connection breaks at once"),
        pytest.param((text_event("Half an ans"),), id="the stream just ends"),
        pytest.param((), id="the stream is empty"),
        pytest.param((text_event("Half"), HANG), id="the model falls silent"),
        pytest.param((b"data: {oops\n\n",), id="an event is not JSON"),
        pytest.param((text_event("Half"), stop_event("error"), DONE), id="it says error"),
        pytest.param((event({"error": {"message": "overloaded"}}),), id="it reports an error"),
    ],
)
async def test_a_broken_answer_is_a_failure_worth_repeating(
    chat_server: ChatServer, impatient_models: Models, pieces: tuple[bytes, ...]
) -> None:
    chat_server.answers(*pieces)

    error = await failure(impatient_models)

    assert error.is_retryable
    assert error.last_error_code == "server_error"


@pytest.mark.parametrize(
    ("status", "code", "is_retryable"),
    [
        (400, "invalid_prompt", False),
        (404, "server_error", False),
        (408, "server_error", True),
        (413, "invalid_prompt", False),
        (422, "invalid_prompt", False),
        (429, "rate_limit_exceeded", True),
        (500, "server_error", True),
        (503, "server_error", True),
    ],
)
async def test_a_refusal_tells_its_reason(
    chat_server: ChatServer, models: Models, status: int, code: str, is_retryable: bool
) -> None:
    chat_server.refuses(status, {"message": f"No, because of {KEY}.", "code": None})

    error = await failure(models)

    assert (error.last_error_code, error.is_retryable) == (code, is_retryable)
    assert "No, because of …." in str(error)
    assert len(chat_server.asked) == 1


async def test_a_refusal_of_any_length_becomes_a_sentence(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.refuses(400, {"message": "No! " * 10_000})

    assert len(str(await failure(models))) < 600


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_not_shown(
    chat_server: ChatServer, models: Models, status: int
) -> None:
    chat_server.refuses(status, {"message": "Incorrect API key: sk-ve***et"})

    error = await failure(models)

    assert not error.is_retryable
    assert "RUNSTATE_OPENAI_API_KEY" in str(error)
    assert "sk-" not in str(error)


@pytest.mark.parametrize(
    ("headers", "retry_after_s"),
    [
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "soon"}, None),
        ({}, None),
        (
            {
                "retry-after": "Mon, 30 Nov 2026 09:00:20 GMT",
                "date": "Mon, 30 Nov 2026 09:00:00 GMT",
            },
            20.0,
        ),
    ],
)
async def test_the_wait_that_a_busy_endpoint_asks_for_is_known(
    chat_server: ChatServer,
    models: Models,
    headers: dict[str, str],
    retry_after_s: float | None,
) -> None:
    chat_server.refuses(429, {"message": "Slow down."}, headers)

    assert (await failure(models)).retry_after_s == retry_after_s


async def test_a_temperature_that_the_model_refuses_is_left_out(
    chat_server: ChatServer, models: Models
) -> None:
    sentence = "Unsupported value: 'temperature' does not support 0.5 with this model."
    chat_server.refuses(400, {"message": sentence, "param": "temperature"})
    chat_server.answers(text_event("Yes"), stop_event("stop"), DONE)
    request = turn_request("gpt-x", [heard("Hello")], temperature=0.5)

    notes = Notes()
    _, reply = await played(models.model_for("gpt-x", 0, notes), request)

    assert [asked.body.get("temperature") for asked in chat_server.asked] == [0.5, None]
    assert (reply.text, notes.without) == ("Yes", ["temperature"])


async def test_a_used_up_quota_is_not_asked_again(chat_server: ChatServer, models: Models) -> None:
    chat_server.refuses(429, {"message": "Pay first.", "code": "insufficient_quota"})

    error = await failure(models)

    assert (error.last_error_code, error.is_retryable) == ("rate_limit_exceeded", False)


async def test_an_endpoint_that_does_not_stream_is_named_as_such(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(b"{}", headers={"content-type": "application/json"})

    assert "text/event-stream" in str(await failure(models))


@pytest.mark.parametrize("base_url", ["http://127.0.0.1:1/v1", "localhost:1/v1", "http://a:b/v1"])
async def test_an_endpoint_that_cannot_be_reached_is_a_failure(base_url: str) -> None:
    models = Models(Settings(openai_base_url=base_url))

    assert (await failure(models)).last_error_code == "server_error"
    await models.aclose()


async def test_cancelling_a_turn_closes_the_connection(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(text_event("Once"), HANG)
    first_words = asyncio.Event()

    async def listen() -> None:
        async for _ in models.model_for("gpt-x").stream(REQUEST):
            first_words.set()

    turn = asyncio.create_task(listen())
    await first_words.wait()
    assert not chat_server.client_left.is_set()
    turn.cancel()

    await asyncio.wait_for(chat_server.client_left.wait(), 5)
    with pytest.raises(asyncio.CancelledError):
        await turn


async def test_leaving_a_stream_closes_the_connection(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(text_event("Once"), HANG)

    async with aclosing(models.model_for("gpt-x").stream(REQUEST)) as stream:
        assert await anext(stream) == TextDelta("Once")

    await asyncio.wait_for(chat_server.client_left.wait(), 5)


async def test_turns_share_a_connection(chat_server: ChatServer, models: Models) -> None:
    for _ in range(3):
        chat_server.answers(text_event("Yes"), stop_event("stop"), DONE)
        await played(models.model_for("gpt-x"), REQUEST)

    assert chat_server.connections == 1


async def test_a_finished_answer_is_not_held_up_by_a_server_that_does_not_hang_up(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(text_event("Yes"), DONE, HANG)

    async with asyncio.timeout(10):
        _, reply = await played(models.model_for("gpt-x"), REQUEST)

    assert reply.text == "Yes"


async def test_a_key_alone_means_the_official_endpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8010/v1")
    models = Models(Settings(openai_base_url=None, openai_api_key=SecretStr(KEY)))
    heeded = models.model_for("gpt-x")
    assert isinstance(heeded, Unheeded)
    model = heeded.model

    assert isinstance(model, OpenAIChat)
    assert str(model._client().base_url).rstrip("/") == OFFICIAL["openai"]
    await models.aclose()


async def test_without_an_endpoint_a_turn_says_which_settings_are_missing() -> None:
    models = Models(Settings(openai_base_url=None, openai_api_key=None))

    error = await failure(models)

    assert "RUNSTATE_OPENAI_BASE_URL" in str(error)
    assert not error.is_retryable
    await models.aclose()


async def test_scripted_models_need_no_endpoint() -> None:
    models = Models(Settings(openai_base_url=None, openai_api_key=None))
    request = turn_request("scripted/echo", [heard("Hello")])

    _, reply = await played(models.model_for("scripted/echo"), request)

    assert reply.text == "Hello"
