"""Changes and deletions under a name, by ``Idempotency-Key`` or the request id of azure's SDK."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import httpx2
import pytest
from openai import AsyncOpenAI
from openai.types.beta.threads import Run

from orchestrator.settings import Settings
from orchestrator.storage.valkey import open_store
from tests.http.conftest import serve, with_and_without_tenants
from tests.waiting import until

pytestmark = with_and_without_tenants

NAMES: Final = ({"Idempotency-Key": "order-67"}, {"x-ms-client-request-id": "5f1e"})
KEY: Final = NAMES[0]

Tries = Callable[..., Awaitable[list[httpx2.Response]]]

MINE: Final = {"metadata": {"by": "me"}}
THEIRS: Final = {"metadata": {"by": "somebody else"}}


@dataclass(frozen=True)
class Objects:
    """One of each kind; ``path`` gives the URL of one."""

    run: Run
    message_id: str

    def path(self, kind: str) -> str:
        thread = f"/v1/threads/{self.run.thread_id}"
        return {
            "assistant": f"/v1/assistants/{self.run.assistant_id}",
            "thread": thread,
            "message": f"{thread}/messages/{self.message_id}",
            "run": f"{thread}/runs/{self.run.id}",
        }[kind]


@pytest.fixture
def http(http: httpx2.AsyncClient) -> httpx2.AsyncClient:
    http.headers["authorization"] = "Bearer any"
    return http


@pytest.fixture
async def objects(client: AsyncOpenAI, run: Run) -> Objects:
    await client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)
    message = await client.beta.threads.messages.create(run.thread_id, role="user", content="Hi")
    return Objects(run, message.id)


changes = pytest.mark.parametrize("kind", ["assistant", "thread", "message", "run"])
deletions = pytest.mark.parametrize("kind", ["assistant", "thread", "message"])


@changes
@pytest.mark.parametrize("name", NAMES)
async def test_a_repeated_change_does_not_undo_what_came_after_it(
    http: httpx2.AsyncClient, objects: Objects, kind: str, name: dict[str, str]
) -> None:
    path = objects.path(kind)
    first = await http.post(path, json=MINE, headers=name)
    assert first.json() == (await http.post(path, json=MINE, headers=name)).json()
    await http.post(path, json=THEIRS)
    again = await http.post(path, json=MINE, headers=name)
    assert (first.json()["metadata"], again.status_code) == (MINE["metadata"], 200)
    assert (await http.get(path)).json() == again.json()
    assert again.json()["metadata"] == THEIRS["metadata"]


@changes
async def test_the_same_key_for_another_change_is_refused(
    http: httpx2.AsyncClient, objects: Objects, kind: str
) -> None:
    path = objects.path(kind)
    await http.post(path, json=MINE, headers=KEY)
    refused = await http.post(path, json=THEIRS, headers=KEY)
    assert refused.json()["error"]["code"] == "idempotency_key_reused"
    assert (await http.get(path)).json()["metadata"] == MINE["metadata"]


@changes
async def test_a_repetition_that_is_only_counted_is_a_change_like_any_other(
    http: httpx2.AsyncClient, objects: Objects, kind: str
) -> None:
    """The first try of the last one never arrived; an equal one came before, and is no answer."""
    path, counts = objects.path(kind), ("0", "0", "1")
    for body, count in zip((MINE, THEIRS, MINE), counts, strict=True):
        await http.post(path, json=body, headers={"X-Stainless-Retry-Count": count})
    assert (await http.get(path)).json()["metadata"] == MINE["metadata"]


@deletions
@pytest.mark.parametrize("name", NAMES)
async def test_a_repeated_deletion_has_the_same_answer(
    http: httpx2.AsyncClient, objects: Objects, kind: str, name: dict[str, str]
) -> None:
    path = objects.path(kind)
    first, second = [await http.delete(path, headers=name) for _ in range(2)]
    assert (first.status_code, first.json()["deleted"]) == (200, True)
    assert second.json() == first.json()
    assert (await http.delete(path)).status_code == 404


@deletions
async def test_two_deletions_at_once_are_both_told_so(
    http: httpx2.AsyncClient, settings: Settings, objects: Objects, kind: str
) -> None:
    path = objects.path(kind)
    async with (
        serve(settings, lambda: open_store(settings)) as address,
        httpx2.AsyncClient(base_url=address, headers=http.headers) as other,
    ):
        clients = (http, other)
        deleting = (clients[n % 2].delete(path, headers=KEY) for n in range(12))
        answers = await asyncio.gather(*deleting)
    assert {one.status_code for one in answers} == {200}


class TestAfterTheWindow:
    """Repetitions that come later than ``RUNSTATE_REPLAY_WINDOW_S``: after a client's time-out."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"replay_window_s": 0.001})

    @pytest.fixture(params=[{"X-Stainless-Retry-Count": "0"}, NAMES[1]])
    async def tries(self, request: pytest.FixtureRequest, http: httpx2.AsyncClient) -> Tries:
        headers: dict[str, str] = request.param

        async def both(method: str, path: str, body: object = None) -> list[httpx2.Response]:
            first = await http.request(method, path, json=body, headers=headers)
            repeated = {name: "1" for name in headers if "Retry" in name}
            await until(partial(is_later, time.monotonic() + 0.01))
            return [first, await http.request(method, path, json=body, headers=headers | repeated)]

        return both

    @deletions
    async def test_a_deletion_is_known_for_as_long_as_a_key(
        self, objects: Objects, kind: str, tries: Tries
    ) -> None:
        first, again = await tries("DELETE", objects.path(kind))
        assert (first.status_code, first.json()) == (again.status_code, again.json())

    async def test_what_was_asked_of_a_thread_is_known_until_the_client_has_given_up(
        self, objects: Objects, tries: Tries
    ) -> None:
        path = objects.path("thread")
        said = {"role": "user", "content": "Hi"}
        for to, body in (("messages", said), ("runs", {"assistant_id": objects.run.assistant_id})):
            first, again = await tries("POST", f"{path}/{to}", body)
            assert first.json()["id"] == again.json()["id"]


async def is_later(than_s: float) -> bool:
    return time.monotonic() > than_s


@deletions
async def test_who_deletes_what_somebody_else_has_deleted_is_told_so(
    http: httpx2.AsyncClient, objects: Objects, kind: str
) -> None:
    path = objects.path(kind)
    await http.delete(path)
    for headers in (*NAMES, {"X-Stainless-Retry-Count": "1"}):
        assert (await http.delete(path, headers=headers)).status_code == 404


async def test_a_thread_with_runs_is_deleted_once_under_its_name(
    http: httpx2.AsyncClient, client: AsyncOpenAI, objects: Objects
) -> None:
    """Each of its runs ends in a commit of its own; only the last one is the answer."""
    run = objects.run
    for _ in range(3):
        await client.beta.threads.runs.create(
            run.thread_id, assistant_id=run.assistant_id, extra_body={"if_busy": "enqueue"}
        )
    path = objects.path("thread")
    for _ in range(2):
        assert (await http.delete(path, headers=KEY)).json()["deleted"]
    assert (await http.get(path)).status_code == 404


async def test_two_changes_of_an_assistant_at_once_are_both_kept(
    http: httpx2.AsyncClient, objects: Objects
) -> None:
    path = objects.path("assistant")
    bodies: list[dict[str, Any]] = [{"name": "Reader"}, {"instructions": "Read."}, MINE]
    await asyncio.gather(*(http.post(path, json=body) for body in bodies))
    changed = (await http.get(path)).json()
    assert {key: changed[key] for body in bodies for key in body} == {
        key: value for body in bodies for key, value in body.items()
    }
