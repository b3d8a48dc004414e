"""Runs and messages for a thread that is busy, as the SDK sends and sees them."""

import pytest
from openai import AsyncOpenAI, BadRequestError
from openai.types.beta.threads import Run

from orchestrator.commands import IfBusy
from orchestrator.decide.waiting import MAX_WAITING, MAX_WAITING_BYTES
from orchestrator.settings import Settings
from orchestrator.store import Store
from tests.http.driver import Asked, Driver


def user_message(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


async def texts(client: AsyncOpenAI, thread_id: str) -> list[str]:
    page = await client.beta.threads.messages.list(thread_id, order="asc")
    return [part.text.value for m in page.data for part in m.content if part.type == "text"]


async def again(client: AsyncOpenAI, run: Run, if_busy: str, text: str) -> Run:
    return await client.beta.threads.runs.create(
        run.thread_id,
        assistant_id=run.assistant_id,
        additional_messages=[user_message(text)],  # type: ignore[list-item]
        extra_body={"if_busy": if_busy},
    )


async def status(client: AsyncOpenAI, run: Run) -> str:
    return (await client.beta.threads.runs.retrieve(run.id, thread_id=run.thread_id)).status


async def test_an_enqueued_run_is_answered_at_once_and_starts_after_the_active_one(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    second = await again(client, run, "enqueue", "Two")
    assert (second.status, second.id != run.id) == ("queued", True)
    assert await status(client, run) == "queued"
    listed = await client.beta.threads.runs.list(run.thread_id)
    assert [listed_run.id for listed_run in listed.data] == [second.id, run.id]
    assert await texts(client, run.thread_id) == []

    await driver.answers(run, "One")
    assert await texts(client, run.thread_id) == ["One", "Two"]
    await driver.answers(second, "Three")
    assert await texts(client, run.thread_id) == ["One", "Two", "Three"]
    assert await status(client, second) == "completed"


async def test_an_interrupt_cancels_the_active_run_and_keeps_what_it_said(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("look_up"), text="One moment.")
    second = await again(client, run, "interrupt", "No, wait.")
    assert await status(client, run) == "cancelled"
    assert await texts(client, run.thread_id) == ["One moment.", "No, wait."]
    await driver.answers(second, "Yes?")
    assert await status(client, second) == "completed"


async def test_a_rollback_takes_away_what_the_active_run_added(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    await driver.asks(run, Asked("look_up"), text="One moment.")
    (message,) = (await client.beta.threads.messages.list(run.thread_id)).data
    second = await again(client, run, "rollback", "Start again.")
    assert await status(client, run) == "cancelled"
    assert await texts(client, run.thread_id) == ["Start again."]
    steps = await client.beta.threads.runs.steps.list(run.id, thread_id=run.thread_id)
    assert {step.status for step in steps.data} == {"completed", "cancelled"}
    written = await client.beta.threads.messages.list(run.thread_id, run_id=run.id)
    assert message.id not in [listed.id for listed in written.data]
    assert (await client.beta.threads.messages.list(run.thread_id, before=message.id)).data
    await driver.answers(second, "Yes?")
    assert await status(client, second) == "completed"


async def test_a_message_that_waits_is_answered_at_once_and_appears_in_its_turn(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    messages = client.beta.threads.messages
    waiting = await messages.create(
        run.thread_id, role="user", content="Two", extra_body={"if_busy": "enqueue"}
    )
    assert waiting.id.startswith("msg_")
    assert await texts(client, run.thread_id) == []
    await driver.answers(run, "One")
    assert await texts(client, run.thread_id) == ["One", "Two"]
    assert await messages.retrieve(waiting.id, thread_id=run.thread_id) == waiting


async def test_a_message_may_interrupt(client: AsyncOpenAI, run: Run) -> None:
    messages = client.beta.threads.messages
    sent = await messages.create(
        run.thread_id, role="user", content="Stop.", extra_body={"if_busy": "interrupt"}
    )
    assert await status(client, run) == "cancelled"
    assert (await messages.list(run.thread_id)).data == [sent]


async def test_a_run_that_waits_can_be_cancelled(
    client: AsyncOpenAI, driver: Driver, run: Run
) -> None:
    second = await again(client, run, "enqueue", "Two")
    third = await again(client, run, "enqueue", "Three")
    cancelled = await client.beta.threads.runs.cancel(second.id, thread_id=run.thread_id)
    assert cancelled.status == "cancelled"
    await driver.answers(run, "One")
    assert await texts(client, run.thread_id) == ["One", "Two", "Three"]
    await driver.answers(third, "Four")


@pytest.mark.parametrize("word", ["reject", None])
async def test_by_default_a_busy_thread_refuses(
    client: AsyncOpenAI, run: Run, word: str | None
) -> None:
    extra = {"if_busy": word}
    with pytest.raises(BadRequestError, match="already has an active run"):
        await client.beta.threads.runs.create(
            run.thread_id, assistant_id=run.assistant_id, extra_body=extra
        )
    with pytest.raises(BadRequestError, match=r"while a run .* is active"):
        await client.beta.threads.messages.create(
            run.thread_id, role="user", content="x", extra_body=extra
        )


async def test_a_word_that_is_none_is_refused(client: AsyncOpenAI, run: Run) -> None:
    with pytest.raises(BadRequestError, match="if_busy"):
        await again(client, run, "wait", "Two")


async def test_a_queue_that_is_full_says_so(client: AsyncOpenAI, run: Run) -> None:
    for number in range(MAX_WAITING):
        await again(client, run, "enqueue", str(number))
    with pytest.raises(BadRequestError, match="Try again when some of it") as refusal:
        await again(client, run, "enqueue", "One more")
    assert refusal.value.code == "too_many_waiting"


async def test_a_queue_that_is_too_large_says_so_and_takes_nothing(
    client: AsyncOpenAI, store: Store, run: Run
) -> None:
    part = "x" * 250_000
    for _ in range(4):
        await again(client, run, "enqueue", part)
    with pytest.raises(BadRequestError, match=f"{MAX_WAITING_BYTES} bytes") as refusal:
        await again(client, run, "interrupt", part)
    assert refusal.value.code == "too_many_waiting"
    assert await status(client, run) == "queued"
    assert len((await store.load(run.thread_id)).aggregate.thread.waiting) == 4
    await again(client, run, "enqueue", "A short one")


class TestWithAServerDefault:
    """``RUNSTATE_IF_BUSY``."""

    @pytest.fixture
    def settings(self, settings: Settings) -> Settings:
        return settings.model_copy(update={"if_busy": IfBusy.ENQUEUE})

    async def test_the_server_decides_unless_the_request_does(
        self, client: AsyncOpenAI, driver: Driver, run: Run
    ) -> None:
        threads = client.beta.threads
        second = await threads.runs.create(run.thread_id, assistant_id=run.assistant_id)
        await threads.messages.create(run.thread_id, role="user", content="Two")
        with pytest.raises(BadRequestError, match="already has an active run"):
            await again(client, run, "reject", "Three")
        await driver.answers(run, "One")
        await driver.answers(second, "Half")
        assert await texts(client, run.thread_id) == ["One", "Half", "Two"]
