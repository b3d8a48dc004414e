"""What was made under one name is not there for another: no answer, no write and no round trip
tells it from what nobody ever made.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import httpx2
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from openai import AsyncOpenAI
from pydantic import SecretStr

from api.auth import WORKERS
from api.pages import routes as pages
from orchestrator.app_file.assistants import id_of
from orchestrator.records import EVERYBODY, Assistant
from orchestrator.settings import ApiKey, Settings
from orchestrator.storage.pipelining import Command, Pipeliner
from orchestrator.storage.valkey import ValkeyStore
from tests.http.driver import Asked, Driver

OPERATOR, LIBRARY, SHOP = "key-without-a-name", "key-of-the-library", "key-of-the-shop"

OPERATORS_ONLY: Final = {"/metrics", "/ops/queues", "/ops/import", "/ops/ui/queues"}

BODIES: Final[dict[str, Any]] = {
    "/v1/threads/{thread_id}/messages": {"role": "user", "content": "Hello"},
    "/v1/threads/{thread_id}/runs": {"assistant_id": "{assistant_id}"},
    "/v1/threads/{thread_id}/runs/{run_id}/replay": {},
    "/v1/threads/{thread_id}/runs/{run_id}/submit_tool_outputs": {
        "tool_outputs": [{"tool_call_id": "{call_id}", "output": "4"}]
    },
    "/v1/threads/{thread_id}/runs/{run_id}/tool_calls/{call_id}/fail": {"message": "No."},
    "/v1/threads/{thread_id}/runs/{run_id}/tool_calls/{call_id}/resolve": {"output": "4"},
}
"""What is sent to these; to all others, new metadata or nothing."""

Ids = dict[str, str]


@dataclass
class Case:
    """A request by the library that names something of the shop's, and its like with ids that
    nobody has.
    """

    method: str
    path: str
    foreign: Ids
    unknown: Ids
    query: dict[str, str] = field(default_factory=dict)
    body: Any = None

    def __str__(self) -> str:
        changed = [name for name in self.foreign if self.foreign[name] != self.unknown[name]]
        return f"{self.method} {self.path} {self.query or ''} with another's {', '.join(changed)}"


class Counting(Pipeliner):
    """The store's own pipeliner, which takes its place and notes for each round trip the number of
    commands and the size of what was read: both take their time.
    """

    def __init__(self, store: ValkeyStore) -> None:
        self._inner = store.pipeliner
        self.sizes: list[tuple[int, int]] = []
        store.pipeliner = self

    async def group(self, commands: Iterable[Command]) -> list[Any]:
        """As the real one."""
        commands = list(commands)
        replies = await self._inner.group(commands)
        read = [
            reply
            for (name, *_), reply in zip(commands, replies, strict=True)
            if name not in {"TIME", "ZSCORE"}  # of a few bytes in any case
        ]
        self.sizes.append((len(commands), len(str(read))))
        return replies

    async def close(self) -> None:
        """Close the real one."""
        await self._inner.close()


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    keys = (
        ApiKey(secret=SecretStr(OPERATOR)),
        ApiKey(secret=SecretStr(LIBRARY), tenant="library"),
        ApiKey(secret=SecretStr(SHOP), tenant="shop"),
    )
    return Settings(redis_url=redis_url, api_keys=keys)


@pytest.fixture
def http(http: httpx2.AsyncClient) -> httpx2.AsyncClient:
    http.headers["authorization"] = f"Bearer {LIBRARY}"
    return http


@pytest.fixture
async def shops(client: AsyncOpenAI, driver: Driver) -> Ids:
    return await everything(client.with_options(api_key=SHOP), driver)


@pytest.fixture
async def librarys(client: AsyncOpenAI, driver: Driver) -> Ids:
    return await everything(client.with_options(api_key=LIBRARY), driver)


async def everything(client: AsyncOpenAI, driver: Driver) -> Ids:
    """One of each kind, in a run that waits for its client."""
    tools: Any = [{"type": "function", "function": {"name": "look_up"}}]
    assistant = await client.beta.assistants.create(model="scripted/inline", tools=tools)
    thread = await client.beta.threads.create()
    message = await client.beta.threads.messages.create(thread.id, role="user", content="Hello")
    run = await client.beta.threads.runs.create(thread.id, assistant_id=assistant.id)
    (call_id,) = await driver.asks(run, Asked("look_up"))
    steps = await client.beta.threads.runs.steps.list(run.id, thread_id=thread.id)
    return {
        "assistant_id": assistant.id,
        "thread_id": thread.id,
        "message_id": message.id,
        "run_id": run.id,
        "call_id": call_id,
        "step_id": steps.data[0].id,
        "number": "0",
    }


def nobodys(ids: Ids) -> Ids:
    """Ids of the same looks that nobody has."""
    return {name: re.sub(r"_.{4}", "_0000", value) for name, value in ids.items()}


def routes(app: FastAPI) -> Iterator[tuple[str, str]]:
    """Method and path of everything that clients' keys open: what is documented, and the pages."""
    for path, operations in app.openapi()["paths"].items():
        if not path.startswith((WORKERS, "/healthz", "/readyz")):
            yield from ((method.upper(), path) for method in operations)
    for route in pages.router.routes:
        if isinstance(route, APIRoute) and route.name not in {"get_static", "show_nowhere"}:
            yield from ((method, route.path) for method in route.methods or ())


def cases(app: FastAPI, own: Ids, shops: Ids) -> Iterator[Case]:
    """Each route with every mixture of own ids and another's that has one of another's."""
    nothing = nobodys(shops)
    for method, path in routes(app):
        body = BODIES.get(path, {"metadata": {"a": "b"}}) if method == "POST" else None
        if re.search(r"/(cancel|approve|reject|requeue)$", path):
            body = None
        named = sorted(set(re.findall(r"{(\w+)}", path + json.dumps(body))) & set(own))
        for are_own in itertools.product([True, False], repeat=len(named)):
            others = {name for name, is_own in zip(named, are_own, strict=True) if not is_own}
            if others - {"number"}:
                foreign = own | {name: shops[name] for name in others}
                unknown = own | {name: nothing[name] for name in others}
                yield Case(method, path, foreign, unknown, body=body)
                if body is not None:
                    yield Case(method, path, foreign, unknown, body={"strange": 1})
    for path in ("/v1/threads", "/v1/assistants", "/v1/threads/{thread_id}/messages"):
        for cursor in ("after", "before"):
            name = re.findall(r"(thread|assistant|message)s$", path)[0] + "_id"
            query = {cursor: "{" + name + "}"}
            listed = path.replace("{thread_id}", own["thread_id"])
            yield Case("GET", listed, shops, nothing, query)
    listed = f"/v1/threads/{own['thread_id']}"
    yield Case("GET", f"{listed}/messages", shops, nothing, {"run_id": "{run_id}"})
    yield Case("GET", f"{listed}/runs", shops, nothing, {"after": "{run_id}"})
    yield Case("GET", "/ops/runs", shops, nothing, {"thread_id": "{thread_id}"})
    yield Case("GET", "/ops/runs", shops, nothing, {"after": "{run_id}"})
    yield Case("GET", "/ops/ui/runs", shops, nothing, {"find": "{thread_id}"})
    body = {"assistant_id": "{assistant_id}"}
    yield Case("POST", "/v1/threads/runs", shops, nothing, body=body)


@dataclass(frozen=True)
class Answer:
    """What a client can tell of an answer, with every id that it sent in the place of it."""

    status: int
    headers: str
    text: str
    round_trips: tuple[tuple[int, int], ...]


async def asked(http: httpx2.AsyncClient, counting: Counting, case: Case, ids: Ids) -> Answer:
    """The answer to the request with these ids."""

    def filled(template: str) -> str:
        for name, value in ids.items():
            template = template.replace("{" + name + "}", value)
        return template

    counting.sizes.clear()
    response = await http.request(
        case.method,
        filled(case.path),
        params={name: filled(value) for name, value in case.query.items()},
        json=None if case.body is None else json.loads(filled(json.dumps(case.body))),
    )
    headers, text = str(sorted(response.headers.items())), response.text
    for name, value in ids.items():
        if len(value) > 1:
            headers, text = (x.replace(value, f"<{name}>") for x in (headers, text))
    headers = re.sub(r"req_\w+|\w{3}, \d\d .*? GMT", "…", headers)
    return Answer(response.status_code, headers, text, tuple(counting.sizes))


async def contents(store: ValkeyStore) -> dict[bytes, bytes | None]:
    """All keys of the store, but for those of requests that may come again."""
    keys = [key async for key in store._client.scan_iter()]
    kept = [key for key in keys if not re.search(rb":(receipt|reservation|claim):", key)]
    return {key: await store._client.dump(key) for key in kept}


async def test_of_what_is_anothers_there_is_no_trace_in_any_answer(
    app: FastAPI, http: httpx2.AsyncClient, store: ValkeyStore, librarys: Ids, shops: Ids
) -> None:
    counting = Counting(store)
    before = await contents(store)
    seen, told = 0, []
    for case in cases(app, librarys, shops):
        foreign = await asked(http, counting, case, case.foreign)
        unknown = await asked(http, counting, case, case.unknown)
        is_refused = foreign.status in {400, 403, 404}
        if foreign != unknown or not is_refused:
            told.append(f"{case}:\n  {foreign}\n  {unknown}")
        seen += 1
    assert told == []
    assert seen > 100
    assert await contents(store) == before


@pytest.mark.parametrize("key", [SHOP, OPERATOR])
async def test_its_own_key_and_the_operators_open_everything_of_a_run(
    app: FastAPI, http: httpx2.AsyncClient, store: ValkeyStore, shops: Ids, key: str
) -> None:
    http.headers["authorization"] = f"Bearer {key}"
    absent = {"/turns/{number}", "/output", "/events"}  # the run has none, or does not end
    open_to_nobody = OPERATORS_ONLY if key == SHOP else set()
    for method, path in routes(app):
        if method == "GET" and not path.endswith(tuple(absent)):
            case = Case(method, path, shops, shops)
            answer = await asked(http, Counting(store), case, shops)
            expected = {403} if path in open_to_nobody else {200, 303, 307}
            assert answer.status in expected, (case, answer)


async def test_lists_and_sums_show_what_is_ones_own(
    http: httpx2.AsyncClient, client: AsyncOpenAI, librarys: Ids, shops: Ids
) -> None:
    for key, ids in ((LIBRARY, librarys), (SHOP, shops)):
        one = client.with_options(api_key=key).beta
        assert [found.id async for found in one.assistants.list()] == [ids["assistant_id"]]
        headers = {"authorization": f"Bearer {key}"}
        for path, name in (("/v1/threads", "thread_id"), ("/ops/runs", "run_id")):
            listed = (await http.get(path, headers=headers)).json()["data"]
            assert [found["id"] for found in listed] == [ids[name]]
        usage = (await http.get("/ops/usage", headers=headers)).json()
        assert [row["name"] for row in usage["data"]] == [key.removeprefix("key-of-the-")]
    everyone = {"authorization": f"Bearer {OPERATOR}"}
    listed = (await http.get("/ops/runs", headers=everyone)).json()["data"]
    assert [run["tenant"] for run in listed] == ["shop", "library"]
    usage = (await http.get("/ops/usage", headers=everyone)).json()
    assert [row["name"] for row in usage["data"]] == ["library", "shop"]


async def test_the_page_of_runs_says_nothing_of_how_busy_others_are(
    http: httpx2.AsyncClient, librarys: Ids, shops: Ids
) -> None:
    of_all = await http.get("/ops/ui/runs", headers={"authorization": f"Bearer {OPERATOR}"})
    assert "<b>2</b>" in of_all.text
    own = (await http.get("/ops/ui/runs")).text
    assert librarys["run_id"] in own
    assert "<b>" not in own
    assert shops["run_id"] not in own


async def test_what_all_tenants_have_in_common_is_the_operators(http: httpx2.AsyncClient) -> None:
    for path in sorted(OPERATORS_ONLY):
        method = "POST" if path == "/ops/import" else "GET"
        body = {"object": "thread", "id": "thread_1", "created_at": 1} if method == "POST" else None
        refused = await http.request(method, path, json=body)
        assert refused.status_code == 403
        assert f"{path} is for the operator: it takes an API key without a name." in refused.text
        http.headers["authorization"] = f"Bearer {OPERATOR}"
        assert (await http.request(method, path, json=body)).status_code == 200
        http.headers["authorization"] = f"Bearer {LIBRARY}"


async def test_the_place_of_a_deleted_thread_is_known_to_its_own_tenant_only(
    http: httpx2.AsyncClient, client: AsyncOpenAI
) -> None:
    shop = client.with_options(api_key=SHOP).beta
    thread = await shop.threads.create()
    assistant = await shop.assistants.create(model="scripted/inline")
    await shop.threads.delete(thread.id)
    await shop.assistants.delete(assistant.id)
    for path, cursor in (("/v1/threads", thread.id), ("/v1/assistants", assistant.id)):
        for key, status in ((SHOP, 200), (OPERATOR, 200), (LIBRARY, 400)):
            headers = {"authorization": f"Bearer {key}"}
            answer = await http.get(path, params={"after": cursor}, headers=headers)
            assert answer.status_code == status, (path, key)


async def test_two_tenants_may_give_their_requests_the_same_name(
    http: httpx2.AsyncClient,
) -> None:
    made = []
    for key, body in (
        (LIBRARY, {}),
        (SHOP, {"metadata": {"a": "b"}}),
        (SHOP, {"metadata": {"a": "b"}}),
    ):
        headers = {"authorization": f"Bearer {key}", "idempotency-key": "first"}
        made.append((await http.post("/v1/threads", json=body, headers=headers)).json()["id"])
    assert made[0] != made[1] == made[2]


async def test_what_an_operator_does_in_a_tenants_thread_is_the_tenants(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, shops: Ids
) -> None:
    shop = client.with_options(api_key=SHOP).beta
    await shop.threads.runs.cancel(shops["run_id"], thread_id=shops["thread_id"])
    operator = client.with_options(api_key=OPERATOR).beta
    run = await operator.threads.runs.create(shops["thread_id"], assistant_id=shops["assistant_id"])
    await driver.answers(run, "Done")
    shown = await shop.threads.runs.retrieve(run.id, thread_id=run.thread_id)
    assert shown.status == "completed"
    listed = (await http.get("/ops/runs", headers={"authorization": f"Bearer {SHOP}"})).json()
    assert [line["id"] for line in listed["data"]] == [run.id, shops["run_id"]]


async def test_assistants_of_the_app_file_are_run_by_all_and_changed_by_the_operator(
    http: httpx2.AsyncClient, client: AsyncOpenAI, store: ValkeyStore
) -> None:
    shared = Assistant(id=id_of("Reader"), created_ms=1, model="scripted/echo", tenant=EVERYBODY)
    await store.put_assistant(shared)
    library = client.with_options(api_key=LIBRARY).beta
    own = await library.assistants.create(model="scripted/echo")
    assert [found.id async for found in library.assistants.list()] == [own.id, shared.id]
    run = await library.threads.create_and_run(assistant_id=shared.id)
    assert run.assistant_id == shared.id
    for method in ("POST", "DELETE"):
        body = {"name": "Mine"} if method == "POST" else None
        refused = await http.request(method, f"/v1/assistants/{shared.id}", json=body)
        assert refused.status_code == 403
        assert refused.json()["error"]["code"] == "operators_only"
    assert (await library.assistants.retrieve(shared.id)).name is None
    await client.with_options(api_key=OPERATOR).beta.assistants.delete(shared.id)
    after = await library.assistants.list(after=shared.id, order="asc")
    assert [found.id for found in after.data] == [own.id]


async def test_an_operator_brings_a_tenants_things_in_and_out(
    http: httpx2.AsyncClient, client: AsyncOpenAI, shops: Ids
) -> None:
    http.headers["authorization"] = f"Bearer {OPERATOR}"
    thread = {"object": "thread", "id": "thread_old", "created_at": 1_700_000_000}
    outcomes = []
    for tenant in ("library", "library", "shop", None):
        query = {"tenant": tenant} if tenant else {}
        answer = (await http.post("/ops/import", json=thread, params=query)).json()
        outcomes.append((answer["outcome"], answer["differs"]))
    other = ("different", ["tenant"])
    assert outcomes == [("imported", []), ("same", []), other, other]
    found = await client.with_options(api_key=LIBRARY).beta.threads.retrieve("thread_old")
    assert found.created_at == 1_700_000_000
    own = await http.get("/ops/export", headers={"authorization": f"Bearer {LIBRARY}"})
    assert [json.loads(line)["id"] for line in own.text.splitlines()] == ["thread_old"]
    for_others = {"authorization": f"Bearer {LIBRARY}"}
    for tenant, status in (("library", 200), ("shop", 403), ("nobody", 403)):
        asked_for = {"tenant": tenant}
        answered = await http.get("/ops/export", params=asked_for, headers=for_others)
        assert answered.status_code == status
    named = await http.get("/ops/export", params={"tenant": "shop"})
    ids = [json.loads(line)["id"] for line in named.text.splitlines()]
    assert ids == [shops["assistant_id"], shops["thread_id"], shops["message_id"]]
    for strange in ("", "a b", "*"):
        assert (await http.get("/ops/export", params={"tenant": strange})).status_code == 400


async def test_what_was_left_of_a_deleted_thread_is_not_in_one_that_is_imported_under_its_id(
    http: httpx2.AsyncClient, client: AsyncOpenAI, store: ValkeyStore, librarys: Ids, shops: Ids
) -> None:
    thread_id = shops["thread_id"]
    await client.with_options(api_key=SHOP).beta.threads.delete(thread_id)
    http.headers["authorization"] = f"Bearer {OPERATOR}"
    thread = {"object": "thread", "id": thread_id, "created_at": 1_700_000_000}
    imported = await http.post("/ops/import", json=thread, params={"tenant": "library"})
    assert imported.json()["outcome"] == "imported"
    runs = client.with_options(api_key=LIBRARY).beta.threads.runs
    assert (await runs.list(thread_id)).data == []
    run = await runs.create(thread_id, assistant_id=librarys["assistant_id"])
    await store.clear_thread(thread_id)  # by an engine that comes late to the deletion
    assert [one.id for one in (await runs.list(thread_id)).data] == [run.id]
