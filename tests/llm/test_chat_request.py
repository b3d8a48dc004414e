"""What an OpenAI-compatible server is sent."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.conversation import Answered, Conversation, Heard, Recalled, Said
from orchestrator.llm.chat_request import chat_request, messages, tool_arguments, tool_name
from orchestrator.records import AskedCall
from tests.llm.turns import heard, turn_request

ADD: dict[str, Any] = {
    "type": "function",
    "function": {"name": "add", "description": "Adds.", "parameters": {"type": "object"}},
}

ALWAYS = {"model", "messages", "stream", "stream_options"}


def test_the_conversation_is_told_in_order() -> None:
    call = AskedCall(call_id="call_a", name="add", arguments='{"a":1}')
    told = messages(
        Conversation(
            "Be kind.",
            (
                heard("One and one?"),
                Said("Let me see.", (call,)),
                Answered("call_a", "add", ""),
                Said("Two."),
                Said(""),
                Said("", (call,)),
            ),
        )
    )
    function = {"name": "add", "arguments": '{"a":1}'}
    tool_calls = [{"id": "call_a", "type": "function", "function": function}]
    assert told == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "One and one?"},
        {"role": "assistant", "content": "Let me see.", "tool_calls": tool_calls},
        {"role": "tool", "tool_call_id": "call_a", "content": ""},
        {"role": "assistant", "content": "Two."},
        {"role": "assistant", "content": None, "tool_calls": tool_calls},
    ]


def test_an_empty_system_text_is_left_out() -> None:
    assert messages(Conversation("", (heard("Hello"),))) == [{"role": "user", "content": "Hello"}]


def test_images_are_sent_as_parts_and_what_cannot_be_sent_is_named() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
    parts = (*heard("Look").parts, image, {"type": "image_file", "image_file": {"file_id": "f"}})
    assert messages(Conversation("", (Heard(parts),)))[0]["content"] == [
        {"type": "text", "text": "Look"},
        image,
        {"type": "text", "text": "[A part of type image_file is left out.]"},
    ]


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("add", "add"),
        ("multi_tool_use.parallel", "multi_tool_use_parallel"),
        ("Google Search", "Google_Search"),
        ("größer", "gr__er"),
        ("", "unnamed"),
        ("x" * 65, "x" * 64),
    ],
)
def test_an_invented_name_is_made_harmless(name: str, sent: str) -> None:
    assert tool_name(name) == sent


@settings(max_examples=50, deadline=None)
@given(st.text())
def test_every_name_is_one_that_servers_accept(name: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool_name(name))


@pytest.mark.parametrize("arguments", ['{"a": 1}', " {} ", '{"a": {"b": [1.5, null, "ü"]}}'])
def test_arguments_that_are_an_object_are_sent_unchanged(arguments: str) -> None:
    assert tool_arguments(arguments) == arguments


@pytest.mark.parametrize("arguments", ["", " ", "\n"])
def test_no_arguments_become_an_empty_object(arguments: str) -> None:
    assert tool_arguments(arguments) == "{}"


@pytest.mark.parametrize(
    "arguments", ['{"a": ', "5", "[]", "null", '"text"', '{"a": NaN}', "[" * 100_000]
)
def test_other_arguments_are_wrapped(arguments: str) -> None:
    assert json.loads(tool_arguments(arguments)) == {"_raw": arguments}


def test_only_what_differs_from_the_default_is_sent() -> None:
    body = chat_request(turn_request("gpt-x", [heard("Hello")], tools=(ADD,)))

    assert set(body) == ALWAYS | {"tools"}
    assert body["tools"] == [ADD]


def test_what_the_run_asks_for_is_sent() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "answer", "schema": {}}}
    body = chat_request(
        turn_request(
            "gpt-x",
            [heard("Hello")],
            tools=(ADD,),
            tool_choice="required",
            temperature=0.0,
            top_p=0.5,
            max_completion_tokens=100,
            parallel_tool_calls=False,
            response_format=schema,
            reasoning_effort="low",
        )
    )

    assert {name: body[name] for name in body if name not in ALWAYS} == {
        "tools": [ADD],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0.0,
        "top_p": 0.5,
        "max_completion_tokens": 100,
        "response_format": schema,
        "reasoning_effort": "low",
    }


def test_unset_sampling_is_not_sent() -> None:
    request = turn_request("gpt-x", temperature=None, top_p=None, response_format=None)
    assert set(chat_request(request)) == ALWAYS


@pytest.mark.parametrize(
    "choice", ["none", "required", {"type": "function", "function": {"name": "add"}}]
)
def test_a_tool_choice_is_sent_with_tools_only(choice: Any) -> None:
    with_tools = turn_request("gpt-x", tools=(ADD,), tool_choice=choice)
    without = turn_request("gpt-x", tool_choice=choice, parallel_tool_calls=False)

    assert chat_request(with_tools)["tool_choice"] == choice
    assert set(chat_request(without)) == ALWAYS


def test_tools_that_are_no_functions_are_left_out() -> None:
    choice = {"type": "file_search"}
    request = turn_request("gpt-x", tools=({"type": "file_search"}, ADD), tool_choice=choice)

    body = chat_request(request)

    assert body["tools"] == [ADD]
    assert "tool_choice" not in body


def test_a_summary_is_shown_as_words_of_the_user() -> None:
    found = messages(Conversation("", (Recalled("They met."), heard("And then?"))))
    assert [message["role"] for message in found] == ["user", "user"]
    assert found[0]["content"] == "[Summary of an earlier part of this conversation]\nThey met."
