"""Lists: order, pages, cursors, empty pages."""

from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from tests.http.driver import Asked, Driver

Body = dict[str, Any]

EMPTY: Body = {"object": "list", "data": [], "first_id": None, "last_id": None, "has_more": False}


@pytest.fixture
async def full(client: AsyncOpenAI) -> Thread:
    """A thread with 45 messages, numbered from 0, of the same second or two."""
    thread = await client.beta.threads.create()
    for number in range(45):
        await client.beta.threads.messages.create(thread.id, role="user", content=str(number))
    return thread


async def page(http: httpx2.AsyncClient, path: str, **query: object) -> Body:
    """The texts and the envelope of one page."""
    response = await http.get(path, params={k: str(v) for k, v in query.items()})
    assert response.status_code == 200, response.text
    body: Body = response.json()
    return body


def numbers(body: Body) -> list[int]:
    return [int(m["content"][0]["text"]["value"]) for m in body["data"]]


async def test_the_default_page_is_the_newest_twenty(
    http: httpx2.AsyncClient, full: Thread
) -> None:
    body = await page(http, f"/v1/threads/{full.id}/messages")
    assert numbers(body) == list(range(44, 24, -1))
    assert body["has_more"] is True


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("limit", [1, 7, 20, 100])
async def test_walking_gives_each_message_once_in_order(
    client: AsyncOpenAI, full: Thread, order: str, limit: int
) -> None:
    walked = [
        int(message.content[0].text.value)  # type: ignore[union-attr]
        async for message in client.beta.threads.messages.list(
            full.id,
            limit=limit,
            order=order,  # type: ignore[arg-type]
        )
    ]
    assert walked == (list(range(45)) if order == "asc" else list(range(44, -1, -1)))


async def test_before_gives_the_page_that_precedes_in_the_chosen_order(
    http: httpx2.AsyncClient, full: Thread
) -> None:
    path = f"/v1/threads/{full.id}/messages"
    third = await page(http, path, order="asc", limit=100)
    ids = [m["id"] for m in third["data"]]
    back = await page(http, path, order="asc", limit=10, before=ids[30])
    assert (numbers(back), back["has_more"]) == (list(range(20, 30)), True)
    start = await page(http, path, order="asc", limit=10, before=ids[10])
    assert (numbers(start), start["has_more"]) == (list(range(10)), False)
    between = await page(http, path, order="desc", after=ids[9], before=ids[6])
    assert numbers(between) == [8, 7]


@pytest.mark.parametrize(
    ("limit", "code", "text"),
    [
        ("101", "integer_above_max_value", "above maximum value. Expected a value <= 100"),
        ("0", "integer_below_min_value", "below minimum value. Expected a value >= 1"),
        ("-1", "integer_below_min_value", "below minimum value. Expected a value >= 1"),
        ("ten", "invalid_type", ""),
    ],
)
async def test_a_limit_outside_of_1_to_100_is_refused(
    http: httpx2.AsyncClient, thread: Thread, limit: str, code: str, text: str
) -> None:
    for path in ("/v1/assistants", f"/v1/threads/{thread.id}/messages"):
        response = await http.get(path, params={"limit": limit})
        error = response.json()["error"]
        assert (response.status_code, error["param"], error["code"]) == (400, "limit", code)
        if text:
            assert error["message"] == (
                f"Invalid 'limit': integer {text}, but got {limit} instead."
            )


async def test_empty_pages_are_whole(
    http: httpx2.AsyncClient, client: AsyncOpenAI, run: Run
) -> None:
    bare = await client.beta.threads.create()
    assert await page(http, f"/v1/threads/{bare.id}/messages") == EMPTY
    assert await page(http, f"/v1/threads/{bare.id}/runs") == EMPTY
    assert await page(http, f"/v1/threads/{run.thread_id}/runs/{run.id}/steps") == EMPTY
    after_last = await page(http, f"/v1/threads/{run.thread_id}/runs", after=run.id)
    assert after_last == EMPTY


async def test_an_unknown_cursor_is_refused(
    http: httpx2.AsyncClient, run: Run, assistant: Assistant
) -> None:
    for path in (
        "/v1/assistants",
        f"/v1/threads/{run.thread_id}/messages",
        f"/v1/threads/{run.thread_id}/runs",
        f"/v1/threads/{run.thread_id}/runs/{run.id}/steps",
    ):
        response = await http.get(path, params={"after": "none"})
        assert (response.status_code, response.json()["error"]["param"]) == (400, "after")


async def test_lists_of_an_unknown_thread_are_not_found(http: httpx2.AsyncClient) -> None:
    for path in ("/v1/threads/thread_0/messages", "/v1/threads/thread_0/runs"):
        assert (await http.get(path)).status_code == 404


async def test_what_other_clients_add_to_the_query_is_ignored(
    http: httpx2.AsyncClient, run: Run
) -> None:
    response = await http.get(
        f"/v1/threads/{run.thread_id}/runs/{run.id}/steps",
        params={"api-version": "v1", "include[]": "a,b"},
    )
    assert response.status_code == 200


async def test_assistants_threads_and_runs_are_listed_newest_first(
    client: AsyncOpenAI, http: httpx2.AsyncClient, driver: Driver, thread: Thread
) -> None:
    made = [(await client.beta.assistants.create(model="m", name=str(n))).id for n in range(3)]
    listed = [assistant.id async for assistant in client.beta.assistants.list(limit=2)]
    assert listed == made[::-1]
    runs = []
    for _ in range(3):
        run = await client.beta.threads.runs.create(thread.id, assistant_id=made[0])
        await driver.cancels(run)
        runs.append(run.id)
    found = [run.id async for run in client.beta.threads.runs.list(thread.id, limit=2)]
    assert found == runs[::-1]
    other = await client.beta.threads.create()
    threads = await page(http, "/v1/threads")
    assert [found["id"] for found in threads["data"]] == [other.id, thread.id]


async def test_a_run_that_speaks_calls_and_speaks_again_is_told_in_order(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    threads = client.beta.threads
    await threads.messages.list(run.thread_id)
    (call_id,) = await driver.asks(run, Asked("look_up"), text="Let me see.")
    await threads.runs.submit_tool_outputs(
        run.id,
        thread_id=run.thread_id,
        tool_outputs=[{"tool_call_id": call_id, "output": "it"}],
    )
    await driver.answers(run, "There it is.")
    await threads.messages.create(run.thread_id, role="user", content="Thanks")
    written = await threads.messages.list(run.thread_id, run_id=run.id, order="asc")
    texts = [message.content[0].text.value for message in written.data]  # type: ignore[union-attr]
    assert texts == ["Let me see.", "There it is."]
    assert {message.run_id for message in written.data} == {run.id}
    assert {message.assistant_id for message in written.data} == {run.assistant_id}
    newest = [
        s.type async for s in threads.runs.steps.list(run.id, thread_id=run.thread_id, limit=2)
    ]
    assert newest == ["message_creation", "tool_calls", "message_creation"]
    oldest = await threads.runs.steps.list(run.id, thread_id=run.thread_id, order="asc")
    back = await threads.runs.steps.list(
        run.id, thread_id=run.thread_id, order="asc", limit=1, before=oldest.data[2].id
    )
    assert ([step.id for step in back.data], back.has_more) == ([oldest.data[1].id], True)
    first = oldest.data[0].step_details
    assert first.type == "message_creation"
    assert first.message_creation.message_id == written.data[0].id


async def test_a_walk_goes_on_from_a_message_that_was_deleted_meanwhile(
    client: AsyncOpenAI, http: httpx2.AsyncClient, full: Thread
) -> None:
    path = f"/v1/threads/{full.id}/messages"
    last = (await page(http, path, limit=7))["last_id"]
    await client.beta.threads.messages.delete(last, thread_id=full.id)
    assert numbers(await page(http, path, limit=7, after=last)) == list(range(37, 30, -1))
    assert numbers(await page(http, path, limit=7, before=last)) == list(range(44, 38, -1))


async def test_a_walk_goes_on_from_a_deleted_assistant_or_thread(
    client: AsyncOpenAI, http: httpx2.AsyncClient
) -> None:
    for kind, made in (
        ("assistants", [await client.beta.assistants.create(model="m") for _ in range(4)]),
        ("threads", [await client.beta.threads.create() for _ in range(4)]),
    ):
        await http.delete(f"/v1/{kind}/{made[1].id}")
        body = await page(http, f"/v1/{kind}", after=made[1].id, order="asc")
        assert [one["id"] for one in body["data"]] == [made[2].id, made[3].id]


async def test_a_walk_shows_once_what_is_there_throughout(
    client: AsyncOpenAI, full: Thread
) -> None:
    seen: list[str] = []
    messages = client.beta.threads.messages
    page = await messages.list(full.id, limit=5)
    kept = {message.id async for message in messages.list(full.id)}
    while True:
        seen += [message.id for message in page.data]
        await messages.create(full.id, role="user", content="-1")
        for gone in (page.data[0].id, page.data[-1].id):
            await messages.delete(gone, thread_id=full.id)
            kept.discard(gone)
        if not page.has_more:
            break
        page = await page.get_next_page()
    assert [len(seen), len(set(seen)), kept - set(seen)] == [45, 45, set()]


@pytest.mark.parametrize("order", ["asc", "desc"])
async def test_the_messages_of_a_run_are_its_own(
    client: AsyncOpenAI, http: httpx2.AsyncClient, driver: Driver, run: Run, order: str
) -> None:
    await client.beta.threads.create(messages=[{"role": "user", "content": "7"}])
    await driver.answers(run, "42")
    path = f"/v1/threads/{run.thread_id}/messages"
    assert numbers(await page(http, path, run_id=run.id, order=order)) == [42]
    other = await client.beta.threads.create(messages=[{"role": "user", "content": "8"}])
    for thread_id, run_id in ((other.id, run.id), (run.thread_id, "run_x")):
        answer = await http.get(f"/v1/threads/{thread_id}/messages", params={"run_id": run_id})
        assert answer.status_code == 404
        assert answer.json()["error"]["message"] == f"No run found with id '{run_id}'."
