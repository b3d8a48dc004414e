"""Tools that the provider runs: counted over the run, and known to where they can be run only."""

from typing import Any

import pytest

from orchestrator.conversation import Answered, Said
from orchestrator.errors import ModelError
from orchestrator.llm.messages_request import messages_request
from orchestrator.llm.protocol import TurnRequest
from orchestrator.llm.routes import missing_tools
from orchestrator.llm.routing import Models
from orchestrator.records import AskedCall, RunSpec, Usage
from orchestrator.server_tools import with_uses_left
from orchestrator.settings import ModelRoute, Settings
from tests.llm.chat_server import ChatServer
from tests.llm.messages_events import block, event, start, stop, tool_use, words
from tests.llm.turns import heard, played, turn_request

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


def searched(index: int, number: int, content: Any = None) -> bytes:
    """The provider's own tool is used, and has found this."""
    use = {"type": "server_tool_use", "id": f"srv_{number}", "name": "web_search", "input": {}}
    found = {
        "type": "web_search_tool_result",
        "tool_use_id": f"srv_{number}",
        "content": [] if content is None else content,
    }
    return block(index, use) + block(index + 1, found)


def with_tools(*tools: dict[str, Any]) -> TurnRequest:
    return turn_request("claude-x", [heard("Hello")], tools=tools)


async def test_uses_of_the_providers_own_tools_are_counted_and_each_request_may_use_what_is_left(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(start(), searched(0, 1), searched(2, 2), stop("pause_turn"))
    chat_server.answers(start(), searched(0, 3), stop("pause_turn"))
    chat_server.answers(start(), words(0, "Found."), stop("end_turn"))

    _, reply = await played(models.model_for("claude-x"), with_tools(SEARCH))

    assert [asked.body["tools"][0]["max_uses"] for asked in chat_server.asked] == [3, 1, 1]
    assert reply.server_uses == {"web_search": 3}
    assert reply.usage == Usage(prompt_tokens=150, completion_tokens=27, cached_tokens=120)
    assert (reply.text, reply.calls, reply.blocks) == ("Found.", (), ())


async def test_a_use_that_failed_or_is_not_done_yet_does_not_count(
    chat_server: ChatServer, models: Models
) -> None:
    failed = {"type": "web_search_tool_result_error", "error_code": "unavailable"}
    asked_for = {"type": "server_tool_use", "id": "srv_2", "name": "web_search", "input": {}}
    chat_server.answers(start(), searched(0, 1, failed), block(2, asked_for), stop("pause_turn"))
    chat_server.answers(start(), words(0, "Nothing."), stop("end_turn"))

    _, reply = await played(models.model_for("claude-x"), with_tools(SEARCH))

    assert [asked.body["tools"][0]["max_uses"] for asked in chat_server.asked] == [3, 3]
    assert reply.server_uses == {}


async def test_code_goes_on_in_the_container_where_it_began(
    chat_server: ChatServer, models: Models
) -> None:
    result = {"type": "bash_code_execution_tool_result", "tool_use_id": "srv_1", "content": {}}
    paused = event(
        "message_delta", delta={"stop_reason": "pause_turn", "container": {"id": "box_1"}}
    )
    chat_server.answers(start(), block(0, result), paused, event("message_stop"))
    chat_server.answers(start(), words(0, "Four."), stop("end_turn"))

    _, reply = await played(
        models.model_for("claude-x"),
        with_tools({"type": "code_execution_20250825", "max_uses": 2}),
    )

    first, second = chat_server.asked
    (tool,) = first.body["tools"]
    assert tool["name"] == "code_execution"
    assert "max_uses" not in tool, "its provider knows no such limit"
    assert "container" not in first.body
    assert second.body["container"] == "box_1"
    assert reply.server_uses == {"code_execution": 1}


async def test_what_the_provider_found_beside_calls_is_sent_back_with_their_outputs(
    chat_server: ChatServer, models: Models
) -> None:
    chat_server.answers(
        start(),
        words(0, "I look."),
        searched(1, 1, [{"type": "web_search_result", "encrypted_content": "x"}]),
        tool_use(3, "toolu_1", "add", '{"a": 1}'),
        stop("tool_use"),
    )
    chat_server.answers(start(), words(0, "Two."), stop("end_turn"))

    _, reply = await played(models.model_for("claude-x"), with_tools(SEARCH))
    call = AskedCall(call_id="call_1", name="add", arguments='{"a": 2}')
    said = Said(reply.text or "", (call,), reply.blocks)
    items = (heard("Hello"), said, Answered("call_1", "add", "2"))
    await played(models.model_for("claude-x"), turn_request("claude-x", items))

    _, spoken, answered = chat_server.asked[1].body["messages"]
    assert [block["type"] for block in spoken["content"]] == [
        "text",
        "server_tool_use",
        "web_search_tool_result",
        "tool_use",
    ]
    assert spoken["content"][2]["content"][0]["encrypted_content"] == "x"
    assert spoken["content"][3]["id"] == answered["content"][0]["tool_use_id"] == "call_1"
    assert spoken["content"][3]["input"] == {"a": 2}


def test_a_tool_that_is_used_up_is_left_out_and_the_model_is_told() -> None:
    used_up = with_uses_left([SEARCH], {"web_search": 3})
    request = turn_request("claude-x", [heard("Hello")], system="Be kind.", tools=used_up)
    body = messages_request(request, 100)

    assert "tools" not in body
    assert [part["text"] for part in body["system"]] == [
        "Be kind.",
        "Used up, and no longer available: web_search.",
    ]
    assert "cache_control" not in body["system"][1]


def test_what_a_provider_wrote_is_not_sent_if_something_else_was_said() -> None:
    written = ({"type": "text", "text": "My name is Ann."}, {"type": "thinking", "thinking": "Hm."})
    said = Said("My name is …", (), written)
    body = messages_request(turn_request("claude-x", [heard("Who?"), said, heard("Oh.")]), 100)

    assert body["messages"][1]["content"] == [{"type": "text", "text": "My name is …"}]


async def test_a_model_of_chat_completions_is_not_asked_to_run_them(
    chat_server: ChatServer, models: Models
) -> None:
    request = turn_request("gpt-x", [heard("Hello")], tools=(SEARCH,))

    with pytest.raises(ModelError, match="web_search can be run by a model of Anthropic"):
        await played(models.model_for("gpt-x"), request)
    assert chat_server.asked == []


@pytest.mark.parametrize(
    ("model", "is_missing"),
    [("claude-x", False), ("scripted/echo", False), ("gpt-x", True), ("best", True)],
)
def test_the_table_of_routes_says_whether_a_model_can_have_them(
    model: str, is_missing: bool
) -> None:
    routes = (ModelRoute(api="anthropic"), ModelRoute(api="openai"))
    spec = RunSpec(assistant_id="asst_a", model=model, tools=(SEARCH,))

    assert bool(missing_tools(Settings(model_routes={"best": routes}), spec)) is is_missing
    assert missing_tools(Settings(), spec.but(tools=())) is None
