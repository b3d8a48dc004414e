"""Tools that a model's provider runs, over the turns of a run."""

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest
from pydantic import SecretStr

from orchestrator.commands import CreateRun, SubmitOutputs
from orchestrator.ids import mint
from orchestrator.llm.sent import request_body
from orchestrator.records import CallState, Json
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import change_run
from orchestrator.store import RunRef, Store
from tests.engine.rig import EngineRoom, run_command, run_reaches, start_run
from tests.llm.chat_server import HANG, ChatServer
from tests.llm.messages_events import block, start, stop, tool_use, words
from tests.waiting import until

SEARCH: Json = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
ASK: Json = {"type": "function", "function": {"name": "ask"}}
CALL = {"tool_calls": [{"name": "ask", "arguments": {}}]}
SCRIPT = {
    "turns": [
        CALL | {"server_uses": {"web_search": 2}},
        CALL | {"server_uses": {"web_search": 1}},
        {"text": "Found."},
    ]
}


def with_tools(*tools: Json, **spec: Any) -> CreateRun:
    command = run_command(SCRIPT, **spec)
    return replace(command, spec=command.spec.but(tools=tools))


async def answer(store: Store, ref: RunRef) -> None:
    view = await run_reaches(store, ref, "requires_action")
    waiting = (call.id for call in view.calls if call.state is CallState.REQUIRED)
    await change_run(store, ref, SubmitOutputs(tuple((call_id, "yes") for call_id in waiting)))


async def test_uses_are_counted_over_the_run_and_never_enter_the_ledger(
    store: Store, engines: EngineRoom
) -> None:
    engines.start("e1")
    ref = await start_run(store, with_tools(SEARCH, ASK))
    await answer(store, ref)
    await answer(store, ref)
    view = await run_reaches(store, ref, "completed")
    turns, entries = await store.read_turns(ref), await store.read_entries(ref.thread_id)

    assert view.run.server_uses == {"web_search": 3}
    assert {call.name for call in view.calls} == {"ask"}
    assert [turn.server_uses for turn in turns] == [{}, {"web_search": 2}, {"web_search": 3}]
    bodies = [
        request_body(turn.but(api="anthropic"), ref.run_id, view.spec, entries) for turn in turns
    ]
    declared = [{tool["name"]: tool.get("max_uses") for tool in body["tools"]} for body in bodies]
    assert [tools.get("web_search") for tools in declared] == [3, 1, None]
    assert "Used up" in bodies[2]["system"][-1]["text"]


@pytest.fixture
async def asking(
    store: Store, provider: ChatServer, redis_url: SecretStr
) -> AsyncIterator[EngineRoom]:
    """An engine that asks the provider, and keeps its turns while the client is imported."""
    routes = {
        "claude-*": (ModelRoute(api="anthropic", base_url=provider.base_url),),
        "gpt-*": (ModelRoute(api="openai", base_url=provider.base_url),),
    }
    room = EngineRoom(store, Settings(redis_url=redis_url, model_routes=routes))
    room.start("e1")
    yield room
    await room.close()


async def test_a_model_that_cannot_run_them_fails_the_run_in_plain_words(
    store: Store, provider: ChatServer, asking: EngineRoom
) -> None:
    """The api refuses such a run at once; its settings may be others than the engine's."""
    ref = await start_run(store, with_tools(SEARCH, model="gpt-x"))
    run = (await run_reaches(store, ref, "failed")).run

    assert run.last_error is not None
    assert "web_search can be run by a model of Anthropic's API" in run.last_error.message
    assert provider.asked == []


async def test_what_was_found_is_sent_back_to_the_run_that_has_got_it_and_to_no_other(
    store: Store, provider: ChatServer, asking: EngineRoom
) -> None:
    use = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    hit = {"type": "web_search_result", "encrypted_content": "secret of the provider"}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv_1", "content": [hit]}
    provider.answers(
        start(),
        words(0, "I look."),
        block(1, use),
        block(2, found),
        tool_use(3, "toolu_1", "ask"),
        stop("tool_use"),
    )
    for text in ("Found.", "As I said."):
        provider.answers(start(), words(0, text), stop("end_turn"))
    command = with_tools(SEARCH, ASK, model="claude-x")
    ref = await start_run(store, command)
    await answer(store, ref)
    view = await run_reaches(store, ref, "completed")
    again = replace(command, run_id=mint("run"))
    await run_reaches(store, await start_run(store, again, ref.thread_id), "completed")

    first, second, third = (asked.body for asked in provider.asked)
    assert view.run.server_uses == {"web_search": 1}
    assert [body["tools"][1]["max_uses"] for body in (first, second, third)] == [3, 2, 3]
    (call,) = view.calls
    sent_back = second["messages"][1]["content"]
    assert [part["type"] for part in sent_back] == ["text", use["type"], found["type"], "tool_use"]
    assert sent_back[3]["id"] == second["messages"][2]["content"][0]["tool_use_id"] == call.id
    assert "secret" in json.dumps(second)
    assert "secret" not in json.dumps(third)


async def test_a_turn_that_pauses_says_how_often_it_went_on_also_while_it_does(
    store: Store, provider: ChatServer, asking: EngineRoom
) -> None:
    for text in ("I look.", " And again."):
        provider.answers(start(), words(0, text), stop("pause_turn"))
    provider.answers(start(), HANG)
    ref = await start_run(store, with_tools(SEARCH, model="claude-x"))

    async def has_gone_on() -> bool:
        return len(provider.asked) == 3

    await until(has_gone_on)
    (turn,) = await store.read_turns(ref)
    view = await store.view(ref)
    shown = request_body(turn, ref.run_id, view.spec, await store.read_entries(ref.thread_id))

    assert turn.continuations == 2
    assert shown == provider.asked[0].body, "what was said is not in it"
