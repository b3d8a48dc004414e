"""Deadlines: kept by every read and write, with no engine alive."""

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run
from pydantic import SecretStr

from orchestrator.settings import Settings
from orchestrator.store import Store
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
