"""``Idempotency-Key``, and the request id of azure's SDK: requests that have a name."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx2
import pytest
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from orchestrator.settings import Settings
from orchestrator.storage.valkey import open_store
from orchestrator.store import PageQuery, RunRef, Store
from tests.http.conftest import serve, with_and_without_tenants
from tests.http.driver import Asked, Driver

pytestmark = with_and_without_tenants

ALL = PageQuery(limit=100)
KEY = {"Idempotency-Key": "order-66"}

Create = Callable[[Assistant, Thread], tuple[str, dict[str, Any]]]

CREATIONS: dict[str, Create] = {
    "message": lambda _, t: (f"threads/{t.id}/messages", {"role": "user", "content": "Hi"}),
    "run": lambda a, t: (f"threads/{t.id}/runs", {"assistant_id": a.id}),
    "thread": lambda _, __: ("threads", {"metadata": {"for": "ann"}}),
    "thread and run": lambda a, _: ("threads/runs", {"assistant_id": a.id}),
    "assistant": lambda _, __: ("assistants", {"model": "scripted/inline"}),
}


@pytest.fixture(params=CREATIONS)
def creation(
    request: pytest.FixtureRequest, assistant: Assistant, thread: Thread
) -> tuple[str, dict[str, Any]]:
    path, body = CREATIONS[request.param](assistant, thread)
    return f"/v1/{path}", body


@pytest.fixture
def http(http: httpx2.AsyncClient) -> httpx2.AsyncClient:
    http.headers["authorization"] = "Bearer any"
    return http


@pytest.fixture
async def both(
    settings: Settings, http: httpx2.AsyncClient
) -> AsyncIterator[tuple[httpx2.AsyncClient, httpx2.AsyncClient]]:
    """Clients of two apis, each with connections of its own to the store."""
    serving = serve(settings, lambda: open_store(settings))
    async with (
        serving as address,
        httpx2.AsyncClient(base_url=address, headers=http.headers) as other,
    ):
        yield http, other


async def test_the_same_key_and_body_have_the_same_answer(
    http: httpx2.AsyncClient, creation: tuple[str, dict[str, Any]]
) -> None:
    path, body = creation
    first, second = [await http.post(path, json=body, headers=KEY) for _ in range(2)]
    assert (first.status_code, second.status_code) == (200, 200)
    assert second.json() == first.json()


async def test_the_same_key_with_another_body_is_refused(
    http: httpx2.AsyncClient, creation: tuple[str, dict[str, Any]]
) -> None:
    path, body = creation
    await http.post(path, json=body, headers=KEY)
    refused = await http.post(path, json=body | {"metadata": {"for": "bob"}}, headers=KEY)
    error = refused.json()["error"]
    assert (refused.status_code, error["code"]) == (400, "idempotency_key_reused")
    assert "used before, with another body" in error["message"]


async def test_the_same_key_for_another_url_is_refused(
    http: httpx2.AsyncClient, store: Store
) -> None:
    bodies: list[dict[str, Any]] = [{"metadata": {"n": str(n)}} for n in range(2)]
    made = [(await http.post("/v1/threads", json=body)).json()["id"] for body in bodies]
    answers = [
        await http.request(method, path, json={}, headers=KEY)
        for method, path in (
            ("POST", f"/v1/threads/{made[0]}"),
            ("POST", f"/v1/threads/{made[1]}"),
            ("DELETE", f"/v1/threads/{made[0]}"),
            ("POST", "/v1/threads"),
        )
    ]
    assert [one.status_code for one in answers] == [200, 400, 400, 400]
    assert {one.json()["error"]["code"] for one in answers[1:]} == {"idempotency_key_reused"}
    assert len((await store.list_threads(ALL)).items) == 2


async def test_another_key_is_another_request(http: httpx2.AsyncClient, thread: Thread) -> None:
    path, body = f"/v1/threads/{thread.id}/messages", {"role": "user", "content": "Hi"}
    ids = [
        (await http.post(path, json=body, headers={"Idempotency-Key": key})).json()["id"]
        for key in ("a", "b")
    ]
    assert ids[0] != ids[1]


@pytest.mark.parametrize("key", ["", "k" * 256])
async def test_a_key_that_is_none_is_refused(http: httpx2.AsyncClient, key: str) -> None:
    refused = await http.post("/v1/threads", headers={"Idempotency-Key": key})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "Idempotency-Key")


async def test_two_at_once_have_one_effect(
    both: tuple[httpx2.AsyncClient, httpx2.AsyncClient], creation: tuple[str, dict[str, Any]]
) -> None:
    path, body = creation
    posts = (both[n % 2].post(path, json=body, headers=KEY) for n in range(20))
    answers = await asyncio.gather(*posts)
    assert {response.status_code for response in answers} == {200}
    assert len({response.json()["id"] for response in answers}) == 1


async def test_a_refused_request_may_be_sent_again_under_its_key(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    path, body = f"/v1/threads/{run.thread_id}/messages", {"role": "user", "content": "Hi"}
    assert (await http.post(path, json=body, headers=KEY)).status_code == 400
    await driver.answers(run, "Done")
    assert (await http.post(path, json=body, headers=KEY)).status_code == 200


async def test_what_was_made_and_deleted_is_not_made_again(
    http: httpx2.AsyncClient, store: Store
) -> None:
    made = (await http.post("/v1/threads", json={}, headers=KEY)).json()
    await http.delete(f"/v1/threads/{made['id']}")
    assert (await http.post("/v1/threads", json={}, headers=KEY)).status_code == 404
    assert (await store.list_threads(ALL)).items == ()


@pytest.mark.parametrize("header", ["Idempotency-Key", "x-ms-client-request-id"])
async def test_outputs_and_cancels_count_once(
    http: httpx2.AsyncClient, driver: Driver, run: Run, header: str
) -> None:
    (call_id,) = await driver.asks(run, Asked("look_up"))
    path = f"/v1/threads/{run.thread_id}/runs/{run.id}"
    body = {"tool_outputs": [{"tool_call_id": call_id, "output": "42"}]}
    for _ in range(2):
        submitted = await http.post(f"{path}/submit_tool_outputs", json=body, headers={header: "1"})
        assert (submitted.status_code, submitted.json()["status"]) == (200, "queued")
    for _ in range(2):
        cancelled = await http.post(f"{path}/cancel", headers={header: "2"})
        assert (cancelled.status_code, cancelled.json()["status"]) == (200, "cancelled")
    assert (await http.post(f"{path}/cancel")).status_code == 400


async def test_azures_request_id_names_the_request(
    http: httpx2.AsyncClient, thread: Thread
) -> None:
    path, body = f"/v1/threads/{thread.id}/messages", {"role": "user", "content": "Hi"}
    ids = [
        (await http.post(path, json=body, headers={"x-ms-client-request-id": name})).json()["id"]
        for name in ("one", "one", "two")
    ]
    assert (ids[0] == ids[1], ids[1] == ids[2]) == (True, False)


async def test_of_two_hundred_creates_one_wins_and_nothing_else_is_stored(
    both: tuple[httpx2.AsyncClient, httpx2.AsyncClient],
    store: Store,
    driver: Driver,
    assistant: Assistant,
    thread: Thread,
) -> None:
    def body(number: int) -> dict[str, Any]:
        message = {"role": "user", "content": f"number {number}"}
        return {"assistant_id": assistant.id, "additional_messages": [message]}

    path = f"/v1/threads/{thread.id}/runs"
    responses = await asyncio.gather(
        *(both[n % 2].post(path, json=body(n), timeout=60) for n in range(200))
    )
    (winner,) = [response for response in responses if response.status_code == 200]
    refusals = [response for response in responses if response is not winner]
    expected = f"Thread {thread.id} already has an active run {winner.json()['id']}."
    assert {response.status_code for response in refusals} == {400}
    assert {response.json()["error"]["message"] for response in refusals} == {expected}
    (message,) = await store.read_entries(thread.id)
    number = responses.index(winner)
    assert f"number {number}" in message.model_dump_json()
    runs = (await store.list_runs(thread.id, ALL)).items
    assert [view.run.id for view in runs] == [winner.json()["id"]]
    assert len(await store.read_events(RunRef(thread.id, winner.json()["id"]))) == 2
    await driver.cancels(Run.model_construct(**winner.json()))
    assert (await both[0].post(path, json=body(200))).status_code == 200
