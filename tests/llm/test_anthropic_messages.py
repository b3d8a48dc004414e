"""The adapter of Anthropic's Messages API against a real socket: streams, pauses, failures."""

import asyncio

import pytest

from orchestrator.commands import Stop
from orchestrator.errors import ModelError
from orchestrator.llm.anthropic_messages import MAX_PAUSES
from orchestrator.llm.protocol import CallDelta, ReplyCall, TextDelta
from orchestrator.llm.routing import Models
from orchestrator.records import Usage
from orchestrator.settings import Settings
from tests.llm.chat_server import DROP, HANG, ChatServer
from tests.llm.conftest import KEY
from tests.llm.messages_events import block, event, start, stop, tool_use, words
from tests.llm.turns import Notes, heard, played, turn_request

REQUEST = turn_request("claude-x", [heard("Hello")], system="Be kind.")


async def failure(models: Models) -> ModelError:
    with pytest.raises(ModelError) as caught:
        await played(models.model_for("claude-x"), REQUEST)
    return caught.value


async def test_an_answer_is_streamed_and_cached_tokens_are_told_apart(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(start(), event("ping"), words(0, "Good ", "day"), stop("end_turn"))

    deltas, reply = await played(models.model_for("claude-x"), REQUEST)

    assert deltas == [TextDelta("Good "), TextDelta("day")]
    assert (reply.text, reply.calls, reply.stop) == ("Good day", (), Stop.DONE)
    assert reply.usage == Usage(prompt_tokens=50, completion_tokens=9, cached_tokens=40)


async def test_the_endpoint_gets_the_conversation_and_the_key(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(start(), words(0, "Yes"), stop("end_turn"))

    await played(models.model_for("claude-x"), REQUEST)

    (asked,) = chat_server.asked
    assert asked.line == "POST /v1/messages HTTP/1.1"
    assert asked.headers["authorization"] == f"bearer {KEY}"
    assert asked.body["model"] == "claude-x"
    assert asked.body["stream"] is True
    assert asked.body["system"][0]["text"] == "Be kind."


async def test_calls_are_streamed_beside_words(chat_server: ChatServer, models: Models) -> None:
    chat_server.answers(
        start(),
        words(0, "Let me see."),
        tool_use(1, "toolu_1", "add", "", '{"a":', "1}"),
        tool_use(2, "toolu_2", "now"),
        stop("tool_use"),
    )

    deltas, reply = await played(models.model_for("claude-x"), REQUEST)

    assert deltas == [
        TextDelta("Let me see."),
        CallDelta(0, "add", ""),
        CallDelta(0, None, '{"a":'),
        CallDelta(0, None, "1}"),
        CallDelta(1, "now", ""),
    ]
    assert reply.calls == (
        ReplyCall("add", '{"a":1}', "toolu_1"),
        ReplyCall("now", "{}", "toolu_2"),
    )
    assert (reply.text, reply.stop) == ("Let me see.", Stop.TOOLS)


async def test_a_pause_is_followed_by_the_same_request_with_what_was_said(
    chat_server: ChatServer, models: Models
) -> None:
    search = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": []}
    thought = {"type": "thinking", "thinking": "", "signature": ""}
    chat_server.answers(
        start(),
        block(
            0,
            thought,
            {"type": "thinking_delta", "thinking": "Hm."},
            {"type": "signature_delta", "signature": "sig"},
        ),
        words(1, "I look. "),
        block(2, search, {"type": "input_json_delta", "partial_json": '{"query": "x"}'}),
        block(3, found),
        stop("pause_turn", 5),
    )
    cited = {"type": "citations_delta", "citation": {"url": "u"}}
    chat_server.answers(
        start(), block(0, {"type": "text", "text": "Found"}, cited), stop("pause_turn", 2)
    )
    chat_server.answers(start(), words(0, "."), stop("end_turn", 1))

    notes = Notes()
    deltas, reply = await played(models.model_for("claude-x", 0, notes), REQUEST)

    first, second, third = (asked.body["messages"] for asked in chat_server.asked)
    assert second[:-1] == first
    assert second[-1] == {
        "role": "assistant",
        "content": [
            {"type": "thinking", "thinking": "Hm.", "signature": "sig"},
            {"type": "text", "text": "I look. "},
            search | {"input": {"query": "x"}},
            found,
        ],
    }
    assert third[:-1] == second
    assert third[-1]["content"] == [{"type": "text", "text": "Found", "citations": [{"url": "u"}]}]
    assert deltas == [TextDelta("I look. "), TextDelta("Found"), TextDelta(".")]
    assert notes.continuations == 2
    assert (reply.text, reply.stop) == ("I look. Found.", Stop.DONE)
    assert reply.usage == Usage(prompt_tokens=150, completion_tokens=8, cached_tokens=120)


async def test_a_model_that_refuses_an_effort_is_asked_without_it_and_the_reply_says_so(
    chat_server: ChatServer, models: Models
) -> None:
    refusal = {"type": "invalid_request_error", "message": "output_config.effort: not supported"}
    chat_server.refuses(400, refusal)
    chat_server.answers(start(), words(0, "Yes"), stop("end_turn"))
    request = turn_request("claude-x", [heard("Hello")], reasoning_effort="high")

    notes = Notes()
    _, reply = await played(models.model_for("claude-x", 0, notes), request)

    first, second = chat_server.asked
    assert first.body["output_config"] == {"effort": "high"}
    assert "output_config" not in second.body
    assert (reply.text, notes.without) == ("Yes", ["reasoning_effort"])


async def test_a_temperature_is_asked_for_and_left_out_if_the_model_refuses_it(
    chat_server: ChatServer, models: Models
) -> None:
    for words_of_it in ("`temperature` is not supported", "effort: not supported"):
        chat_server.refuses(400, {"type": "invalid_request_error", "message": words_of_it})
    chat_server.answers(start(), words(0, "Yes"), stop("end_turn"))
    hello = [heard("Hello")]
    request = turn_request("claude-x", hello, temperature=0.5, reasoning_effort="low")

    notes = Notes()
    await played(models.model_for("claude-x", 0, notes), request)

    assert [asked.body.get("temperature") for asked in chat_server.asked] == [0.5, None, None]
    assert notes.without == ["temperature", "reasoning_effort"]


async def test_a_request_that_is_refused_for_another_reason_is_not_repeated(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.refuses(400, {"type": "invalid_request_error", "message": "prompt is too long"})
    request = turn_request("claude-x", [heard("Hello")], reasoning_effort="high")

    with pytest.raises(ModelError, match="too long"):
        await played(models.model_for("claude-x"), request)

    assert len(chat_server.asked) == 1


async def test_an_answer_that_has_begun_is_not_begun_again_without_a_field(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(start(), words(0, "I look."), stop("pause_turn"))
    chat_server.refuses(400, {"type": "invalid_request_error", "message": "thinking: changed"})
    request = turn_request("claude-x", [heard("Hello")], reasoning_effort="high")

    with pytest.raises(ModelError, match="thinking: changed"):
        await played(models.model_for("claude-x"), request)

    assert len(chat_server.asked) == 2


async def test_an_answer_that_pauses_for_ever_is_a_failure(
    chat_server: ChatServer, models: Models
) -> None:
    for _ in range(MAX_PAUSES + 1):
        chat_server.answers(start(), words(0, "…"), stop("pause_turn"))

    error = await failure(models)

    assert "paused" in str(error)
    assert not error.is_retryable


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("end_turn", Stop.DONE),
        ("stop_sequence", Stop.DONE),
        ("max_tokens", Stop.LENGTH),
        ("model_context_window_exceeded", Stop.LENGTH),
    ],
)
async def test_the_reason_for_stopping_is_told(
    chat_server: ChatServer, models: Models, reason: str, expected: Stop
) -> None:
    chat_server.answers(start(), words(0, "Hello"), stop(reason))

    assert (await played(models.model_for("claude-x"), REQUEST))[1].stop is expected


async def test_a_call_that_was_cut_off_is_not_taken_for_a_whole_one(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(start(), tool_use(0, "toolu_1", "add", '{"a": "ha'), stop("max_tokens"))

    assert (await played(models.model_for("claude-x"), REQUEST))[1].stop is Stop.LENGTH


async def test_a_refusal_is_told_and_its_calls_are_not_run(
    chat_server: ChatServer, models: Models
) -> None:
    details = {"type": "refusal", "explanation": "I will not."}
    asked = tool_use(0, "toolu_1", "add", "{}")
    chat_server.answers(start(), asked, stop("refusal", details=details))
    chat_server.answers(start(), stop("refusal"))

    _, explained = await played(models.model_for("claude-x"), REQUEST)
    _, bare = await played(models.model_for("claude-x"), REQUEST)

    assert (explained.refusal, explained.calls) == ("I will not.", ())
    assert bare.refusal
    assert explained.stop is bare.stop is Stop.DONE


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param((start(), words(0, "Half"), DROP), id="the connection breaks"),
        pytest.param((DROP,), id="the connection breaks at once"),
        pytest.param((start(), words(0, "Half")), id="the stream just ends"),
        pytest.param((), id="the stream is empty"),
        pytest.param((start(), words(0, "Half"), HANG), id="the model falls silent"),
        pytest.param((b"event: ping\ndata: {oops\n\n",), id="an event is not JSON"),
        pytest.param(
            (event("error", error={"type": "overloaded_error", "message": "Overloaded"}),),
            id="it is overloaded",
        ),
        pytest.param((event("error", error=None),), id="it reports an error without words"),
    ],
)
async def test_a_broken_answer_is_a_failure_worth_repeating(
    chat_server: ChatServer, impatient_models: Models, pieces: tuple[bytes, ...]
) -> None:
    chat_server.answers(*pieces)

    error = await failure(impatient_models)

    assert error.is_retryable
    assert error.last_error_code == "server_error"


async def test_what_makes_no_sense_is_passed_over(chat_server: ChatServer, models: Models) -> None:
    delta = {"type": "text_delta", "text": "lost"}
    chat_server.answers(
        b": comment\n\n",
        b"data: []\n\n",
        event("message_start", message=None),
        event("content_block_start", index=0, content_block=None),
        event("content_block_delta", index=0, delta=delta),
        event("content_block_delta", index=0, delta=None),
        event("content_block_stop", index=7),
        block(0, {"type": "text", "text": None}, {"type": "odd_delta"}, {"type": "text_delta"}),
        event("from_the_future", index=1),
        words(1, "Hello"),
        event("message_delta", delta=None, usage="many"),
        event("message_delta", delta=None, usage={"input_tokens": -1, "output_tokens": 10**20}),
        event("message_stop"),
    )

    _, reply = await played(models.model_for("claude-x"), REQUEST)

    assert (reply.text, reply.stop, reply.usage) == ("Hello", Stop.DONE, None)


async def test_characters_survive_being_cut_at_every_byte(
    chat_server: ChatServer, models: Models
) -> None:
    said = words(0, "Grüße \ud83c", "\udf78\u2028")
    chat_server.answers(start(), *(bytes([byte]) for byte in said), stop("end_turn"))

    _, reply = await played(models.model_for("claude-x"), REQUEST)

    assert reply.text == "Grüße 🍸\u2028"


@pytest.mark.parametrize(
    ("status", "code", "is_retryable"),
    [
        (400, "invalid_prompt", False),
        (404, "server_error", False),
        (413, "invalid_prompt", False),
        (429, "rate_limit_exceeded", True),
        (500, "server_error", True),
        (529, "server_error", True),
    ],
)
async def test_a_refused_request_tells_its_reason(
    chat_server: ChatServer, models: Models, status: int, code: str, is_retryable: bool
) -> None:
    error_body = {"type": "some_error", "message": f"No, because of {KEY}."}
    chat_server.refuses(status, error_body, {"retry-after": "7"})

    error = await failure(models)

    assert (error.last_error_code, error.is_retryable) == (code, is_retryable)
    assert not is_retryable or error.retry_after_s == 7.0
    assert str(error) == f"The model's endpoint says ({status}): No, because of …."
    assert len(chat_server.asked) == 1


async def test_a_refused_key_is_not_shown(chat_server: ChatServer, models: Models) -> None:
    chat_server.refuses(401, {"type": "authentication_error", "message": "invalid sk-ve***et"})

    error = await failure(models)

    assert "RUNSTATE_ANTHROPIC_API_KEY" in str(error)
    assert "sk-" not in str(error)


async def test_cancelling_a_turn_closes_the_connection(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(start(), words(0, "Once"), HANG)
    first_words = asyncio.Event()

    async def listen() -> None:
        async for _ in models.model_for("claude-x").stream(REQUEST):
            first_words.set()

    turn = asyncio.create_task(listen())
    await first_words.wait()
    assert not chat_server.client_left.is_set()
    turn.cancel()

    await asyncio.wait_for(chat_server.client_left.wait(), 5)
    with pytest.raises(asyncio.CancelledError):
        await turn


async def test_turns_share_a_connection(chat_server: ChatServer, models: Models) -> None:
    for _ in range(3):
        chat_server.answers(start(), words(0, "Yes"), stop("end_turn"))
        await played(models.model_for("claude-x"), REQUEST)

    assert chat_server.connections == 1


async def test_without_a_key_a_turn_says_which_settings_are_missing() -> None:
    models = Models(Settings(anthropic_api_key=None))

    assert "RUNSTATE_ANTHROPIC_API_KEY" in str(await failure(models))
    await models.aclose()
