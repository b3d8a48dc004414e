"""What Anthropic's Messages API is sent."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestrator.conversation import Answered, Conversation, Heard, Item, Recalled, Said
from orchestrator.llm.messages_request import GO_ON, NOTHING, messages, messages_request
from orchestrator.records import AskedCall, Json
from tests.llm.strict import check_messages
from tests.llm.turns import heard, tool_round, turn_request

MARK = {"cache_control": {"type": "ephemeral"}}


def call(call_id: str, arguments: str = "{}", name: str = "add") -> AskedCall:
    return AskedCall(call_id=call_id, name=name, arguments=arguments)


def text(value: str) -> Json:
    return {"type": "text", "text": value}


def said(*items: Item) -> list[Json]:
    """The messages, with the mark on the last block checked and taken off."""
    found = messages(Conversation("", items))
    assert found[-1]["content"][-1].pop("cache_control") == MARK["cache_control"]
    assert "cache_control" not in str(found)
    return found


def body(items: Sequence[Item] = (), **request: Any) -> Json:
    return messages_request(turn_request("claude-x", items or [heard("Hello")], **request), 1_000)


def tool(name: str, **function: Any) -> Json:
    return {"type": "function", "function": {"name": name, **function}}


def test_all_results_of_a_round_are_in_one_user_message_in_the_order_of_the_calls() -> None:
    asked = Said("Let me see.", (call("a"), call("b", '{"n": 2}')))
    answers = (Answered("a", "add", "1"), Answered("b", "add", "2"))

    assert said(heard("Why?"), asked, *answers, heard("And?")) == [
        {"role": "user", "content": [text("Why?")]},
        {
            "role": "assistant",
            "content": [
                text("Let me see."),
                {"type": "tool_use", "id": "a", "name": "add", "input": {}},
                {"type": "tool_use", "id": "b", "name": "add", "input": {"n": 2}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "1"},
                {"type": "tool_result", "tool_use_id": "b", "content": "2"},
                text("And?"),
            ],
        },
    ]


@pytest.mark.parametrize(
    ("arguments", "sent"),
    [("", {}), ("null", {"_raw": "null"}), ("{oops", {"_raw": "{oops"}), ('{"a":1}', {"a": 1})],
)
def test_arguments_are_always_an_object(arguments: str, sent: Json) -> None:
    asked = Said("", (call("a", arguments),))

    found = said(heard("Why?"), asked, Answered("a", "add", "1"))

    assert found[1]["content"][0]["input"] == sent


def test_a_name_that_no_server_takes_is_neutralised() -> None:
    asked = Said("", (call("a", name="a.b c"),))

    found = said(heard("Why?"), asked, Answered("a", "a.b c", "1"))

    assert found[1]["content"][0]["name"] == "a_b_c"


def test_the_user_is_first_and_last_and_no_text_is_empty() -> None:
    assert said() == [{"role": "user", "content": [text(NOTHING)]}]
    assert said(heard(" ")) == [{"role": "user", "content": [text(NOTHING)]}]
    assert said(Said("Hello."), Said("")) == [
        {"role": "user", "content": [text(NOTHING)]},
        {"role": "assistant", "content": [text("Hello.")]},
        {"role": "user", "content": [text(GO_ON)]},
    ]


def test_images_are_sent_by_their_url_or_their_bytes() -> None:
    def image(url: str) -> Json:
        return {"type": "image_url", "image_url": {"url": url}}

    parts = (image("https://example.com/a.png"), image("data:image/png;base64,AAAA"), {"type": "x"})

    assert said(Heard(parts))[0]["content"] == [
        {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}},
        {
            "type": "image",
            "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"},
        },
        text("[A part of type x is left out.]"),
    ]


def test_the_stable_prefix_and_the_end_are_marked_for_the_cache() -> None:
    sent = body(system="Be kind.", tools=(tool("add"), tool("now")))

    assert sent["system"] == [text("Be kind.") | MARK]
    assert [entry.get("cache_control") for entry in sent["tools"]] == [None, None]
    assert sent["messages"] == [{"role": "user", "content": [text("Hello") | MARK]}]

    without_system = body(tools=(tool("add"), tool("now")))
    assert "system" not in without_system
    assert [entry.get("cache_control") for entry in without_system["tools"]] == [
        None,
        MARK["cache_control"],
    ]


@pytest.mark.parametrize(
    ("choice", "parallel", "sent"),
    [
        ("auto", True, None),
        ("required", True, {"type": "any"}),
        ("none", False, {"type": "none"}),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        (
            {"type": "function", "function": {"name": "add"}},
            False,
            {"type": "tool", "name": "add", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_the_choice_of_tools_is_told(choice: Any, parallel: bool, sent: Json | None) -> None:
    found = body(tools=(tool("add"),), tool_choice=choice, parallel_tool_calls=parallel)

    assert found.get("tool_choice") == sent
    assert "tool_choice" not in body(tool_choice=choice)


def test_tools_have_a_schema_even_if_they_take_nothing() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    tools = (tool("add", description="Adds.", parameters=schema), tool("now"))

    assert [entry | {"cache_control": None} for entry in body(tools=tools)["tools"]] == [
        {"name": "add", "description": "Adds.", "input_schema": schema, "cache_control": None},
        {
            "name": "now",
            "input_schema": {"type": "object", "properties": {}},
            "cache_control": None,
        },
    ]


@pytest.mark.parametrize(
    ("spec", "sent"),
    [
        ({}, {}),
        ({"temperature": 0.0, "top_p": 0.5}, {"temperature": 0.0}),
        ({"temperature": 1.7}, {}),
        ({"top_p": 0.5}, {"top_p": 0.5}),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"type": "object"}},
                }
            },
            {"output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}}},
        ),
    ],
)
def test_only_what_the_api_takes_is_sent(spec: Json, sent: Json) -> None:
    always = {"model", "max_tokens", "messages", "stream"}
    assert {name: value for name, value in body(**spec).items() if name not in always} == sent


@pytest.mark.parametrize(("left", "sent"), [(None, 1_000), (300, 300), (5_000, 1_000)])
def test_an_answer_is_capped_by_the_run_and_by_the_route(left: int | None, sent: int) -> None:
    assert body(max_completion_tokens=left)["max_tokens"] == sent


ITEMS = st.lists(
    st.one_of(
        st.sampled_from([[heard("Why?")], [heard("")], [Said("So.")], [Said(" ")]]),
        st.integers(1, 3).map(
            lambda count: [
                Said("", tuple(call(f"c{n}") for n in range(count))),
                *(Answered(f"c{n}", "add", "") for n in range(count)),
            ]
        ),
        st.just(tool_round("add", "1")),
    ),
    max_size=8,
)


@settings(max_examples=200, deadline=None)
@given(rounds=ITEMS)
def test_any_conversation_becomes_one_that_strict_servers_take(rounds: list[list[Item]]) -> None:
    check_messages(said(*(item for group in rounds for item in group)))


@pytest.mark.parametrize(
    ("effort", "sent"),
    [
        (None, {}),
        ("none", {"thinking": {"type": "disabled"}}),
        ("minimal", {"output_config": {"effort": "low"}}),
        ("max", {"output_config": {"effort": "max"}}),
    ],
)
def test_the_effort_is_asked_for_in_the_words_of_this_api(effort: str | None, sent: Json) -> None:
    found = body(reasoning_effort=effort)
    assert {key: found[key] for key in ("thinking", "output_config") if key in found} == sent


def test_an_effort_goes_with_a_form_of_the_answer() -> None:
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
    found = body(reasoning_effort="low", response_format=schema)
    assert set(found["output_config"]) == {"effort", "format"}


def test_calls_of_a_history_are_declared_even_where_none_may_be_made_any_more() -> None:
    history = [heard("Why?"), *tool_round("add", "3"), heard("And?")]
    found = body(history)

    assert [tool["name"] for tool in found["tools"]] == ["add"]
    assert found["tool_choice"] == {"type": "none"}
    assert "tools" not in body([heard("Why?")])


def test_a_summary_is_shown_as_words_of_the_user() -> None:
    found = said(Recalled("They met."), heard("And then?"))
    assert found == [
        {"role": "user", "content": [text(Recalled("They met.").text), text("And then?")]}
    ]
