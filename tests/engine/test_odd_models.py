"""Models with bad habits, over a real socket, before an endpoint as strict as the strictest: what
they emit never spoils the history, and every run comes to an end that says why.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest
from pydantic import SecretStr

from orchestrator.commands import CreateRun, SubmitOutputs
from orchestrator.decisions import EventType
from orchestrator.ids import mint
from orchestrator.records import CallRound, CallState, Json, RunSpec, ToolSpec
from orchestrator.settings import ModelRoute, Settings
from orchestrator.shell import change_run
from orchestrator.store import PageQuery, RunRef, Store
from tests.engine.rig import EngineRoom, new_message, run_reaches, start_run, texts
from tests.llm.chat_server import DONE, ChatServer, event, stop_event, text_event
from tests.llm.strict import check_chat

WRAPPED = '{"tool_uses": [{"recipient_name": "%s"}, {"recipient_name": "%s"}]}'
TOOLS = tuple({"type": "function", "function": {"name": name}} for name in ("look", "find"))


@pytest.fixture
async def provider(provider: ChatServer) -> AsyncIterator[ChatServer]:
    """Holds every request that it was sent against the rules, at the end."""
    yield provider
    for asked in provider.asked:
        check_chat(asked.body["messages"])


@pytest.fixture
async def room(
    store: Store, provider: ChatServer, redis_url: SecretStr
) -> AsyncIterator[EngineRoom]:
    route = ModelRoute(api="openai", base_url=provider.base_url)
    room = EngineRoom(
        store, Settings(redis_url=redis_url, model_max_retries=0, model_routes={"*": (route,)})
    )
    room.start("e1")
    yield room
    await room.close()


def piece(index: int, arguments: str, name: str | None = None) -> Json:
    function = {"arguments": arguments} | ({"name": name} if name is not None else {})
    return {"index": index, "id": "call_0", "function": function}


def calls_event(pieces: Sequence[Json]) -> bytes:
    delta = {"tool_calls": pieces}
    return event({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})


def emits(provider: ChatServer, *calls: tuple[str, str], finish: str = "tool_calls") -> None:
    """The next answer asks for these tools, with the same id each."""
    pieces = [piece(index, arguments, name) for index, (name, arguments) in enumerate(calls)]
    provider.answers(calls_event(pieces), stop_event(finish), DONE)


def says(provider: ChatServer, text: str, finish: str = "stop") -> None:
    words = [text_event(text)] if text else []
    provider.answers(*words, stop_event(finish), DONE)


async def begun(store: Store, thread_id: str | None = None, **spec: Any) -> RunRef:
    fields = {"assistant_id": "asst_1", "model": "gpt-x", "tools": TOOLS} | spec
    command = CreateRun(
        mint("run"), RunSpec(**fields), 60_000, additional_messages=(new_message("Hello"),)
    )
    return await start_run(store, command, thread_id)


@pytest.mark.parametrize(
    "call",
    [
        ("multi_tool_use.parallel", WRAPPED % ("functions.look", "functions.look")),
        ("multi_tool_use.parallel", WRAPPED % ("functions.look", "python")),
        ("multi_tool_use.parallel", '{"tool_uses": ['),
        ("a.b", "{}"),
        ("Google Search", "{}"),
        ("x" * 65, "{}"),
        ("schön", "[]"),
        ("", "null"),
    ],
)
async def test_an_invented_name_is_answered_and_the_thread_goes_on(
    store: Store, provider: ChatServer, room: EngineRoom, call: tuple[str, str]
) -> None:
    emits(provider, call)
    says(provider, "Then not.")
    says(provider, "Yes.")
    ref = await begun(store)
    view = await run_reaches(store, ref, "completed", "failed")
    again = await begun(store, ref.thread_id)

    assert view.run.status == "completed"
    assert all(made.state is CallState.FAILED for made in view.calls)
    assert (await run_reaches(store, again, "completed", "failed")).run.status == "completed"


@pytest.mark.parametrize("arguments", ["", " ", "null", '"null"', "[]", "5", "{oops"])
async def test_a_client_is_shown_arguments_as_they_were_emitted(
    store: Store, provider: ChatServer, room: EngineRoom, arguments: str
) -> None:
    emits(provider, ("look", arguments), finish="stop")
    says(provider, "I see.")
    ref = await begun(store)
    view = await run_reaches(store, ref, "requires_action")
    (call,) = view.calls
    await change_run(store, ref, SubmitOutputs(((call.id, "nothing"),)))
    await run_reaches(store, ref, "completed")

    assert call.arguments == arguments


async def test_broken_arguments_are_answered_beside_a_good_call_which_goes_out_once(
    store: Store, provider: ChatServer, room: EngineRoom
) -> None:
    await store.publish_tools([ToolSpec(name="look")], ttl_s=60)
    emits(provider, ("look", "{oops"), ("find", "{}"))
    says(provider, "I see.")
    ref = await begun(store)
    view = await run_reaches(store, ref, "requires_action")
    broken, good = view.calls
    await change_run(store, ref, SubmitOutputs(((good.id, "here"),)))
    await run_reaches(store, ref, "completed")

    assert (broken.state, good.state) == (CallState.FAILED, CallState.REQUIRED)
    history = provider.asked[1].body["messages"]
    assert [message.get("content") for message in history][-1] == "here"
    assert "invalid_arguments" in history[-2]["content"]


async def test_a_model_that_never_writes_a_right_call_ends_with_a_reason(
    store: Store, provider: ChatServer, room: EngineRoom
) -> None:
    await store.publish_tools([ToolSpec(name="look")], ttl_s=60)
    for _ in range(10):
        emits(provider, ("look", "{oops"))
    run = (await run_reaches(store, await begun(store, max_turns=10), "failed")).run

    assert run.last_error is not None
    assert "10 model turns" in run.last_error.message
    assert len(provider.asked) == 10


async def test_a_tool_of_an_earlier_run_is_not_surfaced_in_one_that_does_not_declare_it(
    store: Store, provider: ChatServer, room: EngineRoom
) -> None:
    emits(provider, ("find", "{}"))
    says(provider, "Found.")
    ref = await begun(store)
    (call,) = (await run_reaches(store, ref, "requires_action")).calls
    await change_run(store, ref, SubmitOutputs(((call.id, "here"),)))
    await run_reaches(store, ref, "completed")
    for _ in range(3):
        emits(provider, ("find", "{}"))
    again = await begun(store, ref.thread_id, tools=TOOLS[:1], max_turns=3)
    view = await run_reaches(store, again, "failed", "requires_action")

    assert view.run.status == "failed"
    assert {made.state for made in view.calls} == {CallState.FAILED}


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "look"}}])
async def test_a_forced_choice_is_forced_on_the_first_turn_only(
    store: Store, provider: ChatServer, room: EngineRoom, choice: Any
) -> None:
    emits(provider, ("look", "{}"), finish="stop")
    says(provider, "I see.")
    ref = await begun(store, tool_choice=choice)
    (call,) = (await run_reaches(store, ref, "requires_action")).calls
    await change_run(store, ref, SubmitOutputs(((call.id, "nothing"),)))
    await run_reaches(store, ref, "completed")

    assert [asked.body.get("tool_choice") for asked in provider.asked] == [choice, None]
    assert [turn.tool_choice for turn in await store.read_turns(ref)] == [choice, "auto"]


async def test_calls_whose_pieces_come_oddly_are_whole_wherever_they_are_shown(
    store: Store, provider: ChatServer, room: EngineRoom
) -> None:
    chunks: list[list[Json]] = [
        [piece(1, "", "fi"), piece(1, "", "nd"), piece(1, '{"n":')],
        [piece(0, "", "look"), piece(1, " 1"), piece(0, '{"n": ')],
        [piece(0, "2"), piece(1, "}"), piece(0, "}")],
        [piece(1, '{"n": 1}')],
    ]
    provider.answers(*map(calls_event, chunks), stop_event("tool_calls"), DONE)
    ref = await begun(store)
    view = await run_reaches(store, ref, "requires_action")
    (asked,) = (
        one for one in await store.read_entries(ref.thread_id) if isinstance(one, CallRound)
    )
    joined = {0: "", 1: ""}
    for _, told in await store.read_events(ref):
        if told.type is EventType.STEP_DELTA and told.delta:
            joined[told.delta["index"]] += told.delta["arguments"]

    whole = [("find", '{"n": 1}'), ("look", '{"n": 2}')]
    assert [(call.name, call.arguments) for call in view.calls] == whole
    assert [(call.name, call.arguments) for call in asked.calls] == whole
    assert list(joined.values()) == [arguments for _, arguments in whole]


@pytest.mark.parametrize("choice", ["auto", "none", None])
async def test_tools_that_are_not_needed_are_in_nobodys_way(
    store: Store, provider: ChatServer, room: EngineRoom, choice: str | None
) -> None:
    says(provider, "Hello.")
    ref = await begun(store, tool_choice=choice)
    view = await run_reaches(store, ref, "completed", "failed")

    told = {event.type for _, event in await store.read_events(ref)}
    assert view.run.status == "completed"
    assert [step.type for step in view.steps] == ["message_creation"]
    assert await texts(store, ref.thread_id) == ["Hello."]
    assert EventType.MESSAGE_DELTA in told
    assert EventType.STEP_DELTA not in told


@pytest.mark.parametrize(
    ("finish", "status"),
    [
        ("stop", "completed"),
        ("length", "incomplete"),
        ("content_filter", "failed"),
        ("error", "failed"),
    ],
)
async def test_an_empty_answer_is_never_taken_for_an_older_one(
    store: Store, provider: ChatServer, room: EngineRoom, finish: str, status: str
) -> None:
    says(provider, "An older answer.")
    ref = await begun(store)
    await run_reaches(store, ref, "completed")
    says(provider, "", finish)
    again = await begun(store, ref.thread_id)
    view = await run_reaches(store, again, "completed", "incomplete", "failed")
    page = await store.list_messages(ref.thread_id, PageQuery(limit=10), again.run_id)

    assert view.run.status == status
    assert all("older" not in str(message.content) for message in page.items)
    if status != "completed":
        assert view.run.incomplete_message or view.run.last_error
