"""What operators ask: health, readiness, the newest runs, one run in full, the queues."""

from typing import Any

import httpx2
from openai import AsyncOpenAI
from openai.types.beta.threads import Run

from orchestrator.dispatch import Dispatcher
from orchestrator.settings import Settings
from orchestrator.store import Presence, Store
from tests.http.driver import Asked, Driver


async def test_ready_means_a_store_and_an_engine(http: httpx2.AsyncClient, store: Store) -> None:
    missing = await http.get("/readyz")
    assert (missing.status_code, missing.json()) == (
        503,
        {"status": "not_ready", "missing": ["engine"]},
    )
    await store.beat(Presence(kind="engine", id="engine-1"), 60_000)
    ready = await http.get("/readyz")
    assert (ready.status_code, ready.json()) == (200, {"status": "ready", "missing": []})
    await store.leave("engine", "engine-1")


async def test_the_newest_runs_show_both_statuses_and_their_calls(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    first, _ = await driver.asks(run, Asked("measure"), Asked("measure"), workers=("measure",))
    await driver.works(run, first, "1 m")
    other = await client.beta.threads.create_and_run(assistant_id=run.assistant_id)
    await driver.answers(other, "Done")
    newest, oldest = (await http.get("/ops/runs", params={"limit": 5})).json()["data"]
    assert (newest["id"], newest["status"], newest["turns"]) == (other.id, "completed", 1)
    assert newest["ended_at"] >= newest["created_at"]
    assert oldest == {
        "id": run.id,
        "thread_id": run.thread_id,
        "status": "in_progress",
        "internal_status": "requires_action",
        "created_at": run.created_at,
        "ended_at": None,
        "took_ms": None,
        "model": "scripted/inline",
        "tenant": "default",
        "turns": 1,
        "calls": {"open": 1, "settled": 1},
        "total_tokens": None,
        "cost_usd": None,
    }


async def test_runs_are_found_by_status_and_thread_and_read_on_where_a_page_ended(
    http: httpx2.AsyncClient, client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    ended: list[str] = []
    for _ in range(3):
        made = await client.beta.threads.create_and_run(assistant_id=run.assistant_id)
        await driver.answers(made, "Done")
        ended.insert(0, made.id)

    async def found(**query: Any) -> tuple[list[str], str | None]:
        answer = (await http.get("/ops/runs", params=query)).json()
        return [line["id"] for line in answer["data"]], answer["next"]

    assert await found() == ([*ended, run.id], None)
    assert await found(limit=2) == (ended[:2], ended[1])
    assert await found(limit=2, after=ended[1]) == ([ended[2], run.id], None)
    assert await found(status="queued") == ([run.id], None)
    assert await found(status="completed", limit=2) == (ended[:2], ended[1])
    assert await found(status="completed", limit=3) == (ended, ended[2])
    assert await found(status="completed", after=ended[2]) == ([], None)
    assert await found(thread_id=run.thread_id) == ([run.id], None)
    assert (await http.get("/ops/runs", params={"status": "lost"})).status_code == 400


async def test_one_run_is_told_in_full_oldest_first(
    http: httpx2.AsyncClient, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure", '{"secret": 1}'), workers=("measure",))
    await driver.works(run, call_id, "1 m")
    await driver.answers(run, "Done")
    report = (await http.get(f"/ops/runs/{run.id}")).json()
    assert (report["run"]["id"], report["internal_status"]) == (run.id, "completed")
    assert [step["type"] for step in report["steps"]] == ["tool_calls", "message_creation"]
    assert report["steps"][0]["step_details"]["tool_calls"][0]["function"]["output"] == "1 m"
    (call,) = report["calls"]
    assert (call["id"], call["state"], call["worker"]) == (call_id, "succeeded", "worker-1")
    assert "arguments" not in call
    types = [event["type"] for event in report["events"]]
    assert types[:3] == ["run.created", "run.queued", "run.in_progress"]
    assert types[-1] == "run.completed"
    assert [event["at_ms"] for event in report["events"]] == sorted(
        event["at_ms"] for event in report["events"]
    )


async def test_an_unknown_run_is_not_found(http: httpx2.AsyncClient) -> None:
    response = await http.get("/ops/runs/run_0")
    assert response.status_code == 404
    assert response.json()["error"]["message"] == "No run found with id 'run_0'."


async def test_the_queues_show_what_waits_on_them(
    http: httpx2.AsyncClient, settings: Settings, store: Store, driver: Driver, run: Run
) -> None:
    assert (await http.get("/ops/queues")).json() == {"data": [], "unserved": []}
    await driver.asks(run, Asked("measure"), Asked("measure"), workers=("measure",))
    await Dispatcher(store, settings).deliver(await store.take_parcels(10, 60_000))
    report = (await http.get("/ops/queues")).json()
    (queue,) = report["data"]
    assert (queue["name"], queue["depth"], queue["started"]) == ("tools", 2, 0)
    assert queue["oldest_age_s"] >= 0
    assert queue["workers"] == []
    assert report["unserved"] == ["tools"]


async def test_calls_that_no_live_worker_serves_are_said_to_wait(
    http: httpx2.AsyncClient, settings: Settings, store: Store, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("measure"), workers=("measure",))
    await Dispatcher(store, settings).deliver(await store.take_parcels(10, 60_000))

    async def unserved() -> list[list[str]]:
        paths = ("/ops/queues", f"/ops/runs/{run.id}")
        return [(await http.get(path)).json()["unserved"] for path in paths]

    assert await unserved() == [["tools"], ["tools"]]
    await store.beat(Presence("worker", "w", {"queue": "tools"}), 60_000)
    assert await unserved() == [[], []]
    await store.leave("worker", "w")
