"""Deadlines: kept by every read and write, with no engine alive."""

import asyncio

import httpx2
import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run
from openai.types.beta.threads.runs import FunctionToolCall, ToolCallsStepDetails
from pydantic import SecretStr

from orchestrator.settings import Settings
from orchestrator.store import RunRef, Store
from tests.engine.rig import EngineRoom, run_reaches
from tests.http.driver import Asked, Driver
from tests.waiting import until

TTL_S = 0.3


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url, run_ttl_s=TTL_S)


@pytest.fixture
async def overdue(client: AsyncOpenAI, driver: Driver, store: Store, run: Run) -> Run:
    """A run that waits for the client, and whose time is over, though nobody has said so."""
    await driver.asks(run, Asked("look_up"))
    deadline_ms = (await store.load(run.thread_id, run.id)).now_ms + round(TTL_S * 1000)

    async def is_over() -> bool:
        return await store.now_ms() > deadline_ms

    await until(is_over)
    return run


async def test_a_run_left_alone_reads_expired(client: AsyncOpenAI, overdue: Run) -> None:
    run = await client.beta.threads.runs.retrieve(overdue.id, thread_id=overdue.thread_id)
    assert (run.status, run.expires_at, run.required_action) == ("expired", None, None)
    (step,) = (await client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id)).data
    assert (step.status, step.expired_at is None) == ("expired", False)


async def test_lists_show_no_run_past_its_time(client: AsyncOpenAI, overdue: Run) -> None:
    (run,) = (await client.beta.threads.runs.list(overdue.thread_id)).data
    assert run.status == "expired"


async def test_outputs_after_the_deadline_are_refused_and_say_why(
    client: AsyncOpenAI, driver: Driver, overdue: Run
) -> None:
    with pytest.raises(BadRequestError, match='Runs in status "expired" do not accept'):
        await client.beta.threads.runs.submit_tool_outputs(
            overdue.id,
            thread_id=overdue.thread_id,
            tool_outputs=[{"tool_call_id": "call_1", "output": "late"}],
        )


async def test_the_thread_is_free_at_once(client: AsyncOpenAI, overdue: Run) -> None:
    await client.beta.threads.messages.create(overdue.thread_id, role="user", content="Next")
    run = await client.beta.threads.runs.create(
        overdue.thread_id, assistant_id=overdue.assistant_id
    )
    assert run.status == "queued"


async def test_the_sdks_poll_helper_sees_the_expiry(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread
) -> None:
    run = await client.beta.threads.runs.create_and_poll(
        thread_id=thread.id, assistant_id=assistant.id
    )
    assert run.status == "expired"


async def test_a_run_that_expired_with_no_engine_there_is_not_played_by_one_that_comes_later(
    http: httpx2.AsyncClient,
    driver: Driver,
    store: Store,
    idle_engines: EngineRoom,
    assistant: Assistant,
) -> None:
    path = "/v1/threads"
    threads = [(await http.post(path)).json()["id"] for _ in range(2)]
    late, timely = [
        await driver.creates(thread_id, assistant.id, ttl_ms)
        for thread_id, ttl_ms in zip(threads, (200, 60_000), strict=True)
    ]
    lists = [f"{path}/{late.thread_id}/runs", f"/ops/runs?thread_id={late.thread_id}"]

    async def is_expired() -> bool:
        run = (await http.get(f"{path}/{late.thread_id}/runs/{late.run_id}")).json()
        return bool(run["status"] == "expired")

    await until(is_expired)
    shown = [(await http.get(url)).json()["data"][0]["status"] for url in lists]
    assert shown == ["expired", "expired"]
    absent = await http.get("/readyz")
    assert (absent.status_code, absent.json()["missing"]) == (503, ["engine"])

    idle_engines.start("engine-1")
    await run_reaches(store, timely, "completed", "failed")
    assert (await http.get("/readyz")).status_code == 200
    assert await store.read_turns(late) == ()
    types = [event.type for _, event in await store.read_events(late)]
    assert types == ["run.created", "run.queued", "run.expired"]


class TestAroundTheDeadline:
    """There is time enough to come before it."""

    @pytest.fixture
    def settings(self, redis_url: SecretStr) -> Settings:
        return Settings(redis_url=redis_url, run_ttl_s=1.5)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_outputs_are_taken_or_refused_and_nothing_in_between(  # noqa: PLR0917
        self,
        client: AsyncOpenAI,
        http: httpx2.AsyncClient,
        driver: Driver,
        store: Store,
        assistant: Assistant,
        stream: bool,
    ) -> None:
        threads = client.beta.threads

        async def submit(margin_ms: int) -> bool:
            """Whether outputs that come so long before the deadline are taken."""
            run = await threads.create_and_run(assistant_id=assistant.id)
            (call_id,) = await driver.asks(run, Asked("look_up"))
            deadline_ms = (await store.view(RunRef(run.thread_id, run.id))).run.deadline_ms

            async def is_time() -> bool:
                return await store.now_ms() >= deadline_ms - margin_ms

            await until(is_time)
            path = f"/v1/threads/{run.thread_id}/runs/{run.id}/submit_tool_outputs"
            body = {"tool_outputs": [{"tool_call_id": call_id, "output": "42"}], "stream": stream}
            answer = await http.post(path, json=body)
            is_taken = answer.status_code == 200
            if not is_taken:
                assert 'Runs in status "expired" do not accept' in answer.json()["error"]["message"]
            ended = await threads.runs.poll(run.id, thread_id=run.thread_id)
            (step,) = (await threads.runs.steps.list(run.id, thread_id=run.thread_id)).data
            assert isinstance(step.step_details, ToolCallsStepDetails)
            (call,) = step.step_details.tool_calls
            assert isinstance(call, FunctionToolCall)
            outcome = (step.status, call.function.output)
            assert outcome == (("completed", "42") if is_taken else ("expired", None))
            assert (ended.status, ended.expires_at, ended.required_action) == (
                "expired",
                None,
                None,
            )
            return is_taken

        margins_ms = [*range(-12, 13, 2), 800]
        taken = dict(zip(margins_ms, await asyncio.gather(*map(submit, margins_ms)), strict=True))
        assert (taken[-12], taken[800]) == (False, True)
