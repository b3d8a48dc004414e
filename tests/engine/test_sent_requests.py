"""What is told of a turn's request is, to the letter, what its provider got."""

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, Final, Literal

import pytest
from pydantic import SecretStr

from orchestrator.commands import SubmitOutputs
from orchestrator.llm.sent import request_body
from orchestrator.records import Json
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import change_run, view_run
from orchestrator.store import RunRef, Store
from tests.engine.rig import EngineRoom, run_command, run_reaches, start_run
from tests.engine.test_odd_models import calls_event, piece, says
from tests.llm.chat_server import DONE, ChatServer, event, stop_event
from tests.llm.messages_events import start, stop, tool_use, words

FORM: Final = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"type": "object"}}}
DECLARED: Final = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}},
}
APIS: Final[tuple[Literal["openai", "anthropic"], ...]] = ("openai", "anthropic")
SPECS: Final[tuple[Json, ...]] = (
    {},
    {"instructions": "Be kind.", "temperature": 0.5, "max_completion_tokens": 500},
    {"top_p": 0.5, "tool_choice": "required", "parallel_tool_calls": False},
    {"reasoning_effort": "low", "response_format": FORM},
    {"tool_choice": {"type": "function", "function": {"name": "look"}}},
)


@pytest.fixture
async def room(
    store: Store, provider: ChatServer, redis_url: SecretStr
) -> AsyncIterator[EngineRoom]:
    """The first endpoint of each model has gone; the second knows it by another name."""
    routes = {
        api: (
            ModelRoute(api=api, base_url="http://127.0.0.1:1"),
            ModelRoute(
                api=api,
                base_url=provider.base_url,
                model=f"{api}-inside",
                max_output_tokens=999,
            ),
        )
        for api in APIS
    }
    room = EngineRoom(store, Settings(redis_url=redis_url, model_routes=routes))
    room.start("e1")
    yield room
    await room.close()


def answers(provider: ChatServer, api: str) -> None:
    """A call, then words."""
    if api == "openai":
        counted = event({"choices": [], "usage": {"prompt_tokens": 3, "completion_tokens": 9}})
        asks = calls_event([piece(0, '{"n": 1}', "look")])
        provider.answers(asks, stop_event("tool_calls"), counted, DONE)
        says(provider, "I see.")
    else:
        provider.answers(start(), tool_use(0, "toolu_1", "look", '{"n": 1}'), stop("tool_use"))
        provider.answers(start(), words(0, "I see."), stop("end_turn"))


async def played(store: Store, api: str, spec: Json) -> RunRef:
    command = run_command({}, model=api)
    ref = await start_run(store, replace(command, spec=command.spec.but(tools=(DECLARED,), **spec)))
    (call,) = (await run_reaches(store, ref, "requires_action")).calls
    await change_run(store, ref, SubmitOutputs(((call.id, "nothing"),)))
    await run_reaches(store, ref, "completed")
    return ref


async def told(store: Store, ref: RunRef) -> list[Any]:
    """The requests of all turns, as they are shown."""
    spec, entries = (await view_run(store, ref)).spec, await store.read_entries(ref.thread_id)
    turns = await store.read_turns(ref)
    return [request_body(turn, ref.run_id, spec, entries) for turn in turns]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("spec", SPECS)
async def test_the_requests_of_a_run_are_told_as_they_were_sent(
    store: Store, provider: ChatServer, room: EngineRoom, api: str, spec: Json
) -> None:
    answers(provider, api)
    ref = await played(store, api, spec)
    sent = [asked.body for asked in provider.asked]

    assert len(sent) == 2
    assert [body["model"] for body in sent] == [f"{api}-inside"] * 2
    assert await told(store, ref) == sent


@pytest.mark.parametrize("api", APIS)
async def test_what_a_model_refuses_to_be_told_is_not_told_of_either(
    store: Store, provider: ChatServer, room: EngineRoom, api: str
) -> None:
    refusal = {"type": "invalid_request_error", "message": "reasoning_effort: not supported"}
    provider.refuses(400, refusal)
    says(provider, "Yes.") if api == "openai" else provider.answers(
        start(), words(0, "Yes."), stop("end_turn")
    )
    command = run_command({}, model=api, reasoning_effort="low")
    ref = await start_run(store, command)
    await run_reaches(store, ref, "completed")
    refused, sent = (asked.body for asked in provider.asked)

    assert refused != sent
    assert await told(store, ref) == [sent]
