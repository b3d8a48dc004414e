"""What runs may be asked for beyond the published API: tools that the model's provider runs,
summaries of what is old, outputs that are kept.
"""

from typing import Any

import httpx2
import pytest
from openai.types.beta import Thread
from openai.types.beta.threads import Run

from orchestrator.commands import Compact, RequeueTurn
from orchestrator.records import CallRound, Usage
from orchestrator.shell import change_run, view_run
from orchestrator.store import RunRef, Store
from tests.http.driver import Asked, Driver

SEARCH = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}


async def created(http: httpx2.AsyncClient, thread: Thread, **fields: Any) -> httpx2.Response:
    """The answer to a request for a run, of an assistant of its own."""
    assistant = {"model": "scripted/echo"} | fields.pop("assistant", {})
    made = (await http.post("/v1/assistants", json=assistant)).json()
    asked = {"assistant_id": made["id"]} | fields
    return await http.post(f"/v1/threads/{thread.id}/runs", json=asked)


@pytest.mark.parametrize("model", ["claude-opus-5", "scripted/echo"])
async def test_a_tool_of_the_providers_own_is_kept_as_it_was_declared(
    http: httpx2.AsyncClient, thread: Thread, model: str
) -> None:
    tool = SEARCH | {"allowed_domains": ["example.org"]}
    answer = await created(http, thread, assistant={"model": model, "tools": [tool]})

    assert answer.status_code == 200
    assert answer.json()["tools"] == [tool]


async def test_a_run_whose_model_cannot_have_such_a_tool_is_refused_and_nothing_is_changed(
    http: httpx2.AsyncClient, thread: Thread
) -> None:
    answer = await created(http, thread, model="gpt-x", tools=[SEARCH])

    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "unsupported_tool", "tools")
    assert "web_search can be run by a model of Anthropic's API" in error["message"]
    runs = (await http.get(f"/v1/threads/{thread.id}/runs")).json()
    assert runs["data"] == []


@pytest.mark.parametrize(
    ("tool", "place"),
    [
        (SEARCH | {"max_uses": 0}, "tools[0].max_uses"),
        (SEARCH | {"max_uses": "3"}, "tools[0].max_uses"),
        ({"type": "web_search_19990101"}, "tools[0]"),
    ],
)
async def test_a_wrong_declaration_is_named(
    http: httpx2.AsyncClient, thread: Thread, tool: dict[str, Any], place: str
) -> None:
    answer = await created(http, thread, tools=[tool])
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, place)


async def test_a_run_may_ask_for_summaries(http: httpx2.AsyncClient, thread: Thread) -> None:
    answer = await created(http, thread, truncation_strategy={"type": "compact"})
    assert answer.json()["truncation_strategy"] == {"type": "compact", "last_messages": None}


async def test_summaries_do_not_go_with_a_number_of_messages(
    http: httpx2.AsyncClient, thread: Thread
) -> None:
    both = {"type": "compact", "last_messages": 3}
    answer = await created(http, thread, truncation_strategy=both)
    assert answer.status_code == 400
    assert "does not go with" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "fields",
    [
        {"metadata": {"runstate_pin_tools": "look_up, find"}},
        {"assistant": {"metadata": {"runstate_pin_tools": "look_up"}}},
    ],
)
async def test_outputs_of_the_clients_own_tools_are_kept_if_the_metadata_says_so(
    http: httpx2.AsyncClient, thread: Thread, driver: Driver, store: Store, fields: dict[str, Any]
) -> None:
    names = ("look_up", "other")
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    made = (await created(http, thread, tools=tools, **fields)).json()
    await driver.asks(Run.model_construct(**made), *map(Asked, names))

    entries = await store.read_entries(thread.id)
    (asked,) = (entry for entry in entries if isinstance(entry, CallRound))
    assert [call.is_pinned for call in asked.calls] == [True, False]


async def test_what_summaries_take_is_in_the_usage_of_the_run_and_they_are_no_messages(
    http: httpx2.AsyncClient, driver: Driver, store: Store, run: Run
) -> None:
    ref = RunRef(run.thread_id, run.id)
    await driver.starts(run)
    generation = (await view_run(store, ref)).run.generation
    usage = Usage(prompt_tokens=30, completion_tokens=2)
    await change_run(store, ref, Compact(generation, "They met.", (), usage))
    await change_run(store, ref, RequeueTurn(generation))
    await driver.answers(run, "Yes.", usage=Usage(prompt_tokens=5, completion_tokens=1))

    path = f"/v1/threads/{run.thread_id}/runs/{run.id}"
    assert (await http.get(path)).json()["usage"]["total_tokens"] == 38
    messages = (await http.get(f"/v1/threads/{run.thread_id}/messages")).json()
    assert [message["role"] for message in messages["data"]] == ["assistant"]
    log = (await http.get(f"{path}/events")).text
    assert "thread.run.completed" in log
    assert "compacted" not in log, "no client knows such an event"
