"""Requests whose answer is lost: the SDKs send them again, and they count once."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from urllib.parse import urlsplit

import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from orchestrator.store import PageQuery, Store
from tests.http.conftest import with_and_without_tenants
from tests.http.driver import Asked, Driver
from tests.http.proxy import LossyProxy, lossy_proxy

pytestmark = with_and_without_tenants

REPEATED = {"X-Stainless-Retry-Count": "1"}
"""What marks a repetition; the test sends it itself where the first try is to have been lost."""

ALL = PageQuery(limit=100)


@dataclass(frozen=True)
class Lossy:
    """The SDK as everybody uses it, behind a network that loses answers."""

    client: AsyncOpenAI
    network: LossyProxy


@pytest.fixture
async def lossy(address: str) -> AsyncIterator[Lossy]:
    async with (
        lossy_proxy(urlsplit(address).port or 0) as (network, port),
        AsyncOpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="any") as client,
    ):
        yield Lossy(client, network)


@pytest.mark.parametrize("lost", [1, 2])
async def test_a_message_is_added_once(
    lossy: Lossy, client: AsyncOpenAI, thread: Thread, lost: int
) -> None:
    lossy.network.lose(lost)
    message = await lossy.client.beta.threads.messages.create(thread.id, role="user", content="Hi")
    assert lossy.network.requests == lost + 1
    assert (await client.beta.threads.messages.list(thread.id)).data == [message]


async def test_a_run_is_created_once_and_found_again(
    lossy: Lossy, client: AsyncOpenAI, assistant: Assistant, thread: Thread
) -> None:
    lossy.network.lose()
    run = await lossy.client.beta.threads.runs.create(
        thread.id,
        assistant_id=assistant.id,
        additional_messages=[{"role": "user", "content": "Hi"}],
    )
    assert lossy.network.requests == 2
    assert [one.id for one in (await client.beta.threads.runs.list(thread.id)).data] == [run.id]
    assert len((await client.beta.threads.messages.list(thread.id)).data) == 1


async def test_a_run_that_has_ended_meanwhile_is_shown_as_it_is_now(
    lossy: Lossy, client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread
) -> None:
    lossy.network.lose()
    creating = asyncio.create_task(
        lossy.client.beta.threads.runs.create(thread.id, assistant_id=assistant.id)
    )
    runs = (await client.beta.threads.runs.list(thread.id)).data
    while not runs:
        runs = (await client.beta.threads.runs.list(thread.id)).data
    await driver.answers(runs[0], "Hello")
    run = await creating
    assert (run.id, run.status) == (runs[0].id, "completed")


async def test_a_stream_is_attached_to_the_run_that_was_created(
    lossy: Lossy, client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread
) -> None:
    lossy.network.lose()
    stream = await lossy.client.beta.threads.runs.create(
        thread.id, assistant_id=assistant.id, stream=True
    )
    (run,) = (await client.beta.threads.runs.list(thread.id)).data
    await driver.answers(run, "Hello")
    events = [event.event async for event in stream]
    assert (events[0], "thread.run.completed" in events) == ("thread.run.created", True)


async def test_a_thread_is_created_once(lossy: Lossy, store: Store) -> None:
    lossy.network.lose()
    thread = await lossy.client.beta.threads.create(metadata={"user": "ann"})
    assert [one.id for one in (await store.list_threads(ALL)).items] == [thread.id]


async def test_a_thread_with_its_run_is_created_once(
    lossy: Lossy, store: Store, assistant: Assistant
) -> None:
    lossy.network.lose()
    run = await lossy.client.beta.threads.create_and_run(
        assistant_id=assistant.id, thread={"messages": [{"role": "user", "content": "Hi"}]}
    )
    assert [one.id for one in (await store.list_threads(ALL)).items] == [run.thread_id]
    assert [view.run.id for view in (await store.recent_runs(PageQuery(10))).items] == [run.id]


async def test_an_assistant_is_created_once(lossy: Lossy, store: Store) -> None:
    lossy.network.lose()
    assistant = await lossy.client.beta.assistants.create(model="scripted/inline")
    assert [one.id for one in (await store.list_assistants(ALL)).items] == [assistant.id]


async def test_outputs_are_submitted_once(
    lossy: Lossy, store: Store, driver: Driver, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("look_up"))
    before = len(await store.read_entries(run.thread_id))
    lossy.network.lose()
    submitted = await lossy.client.beta.threads.runs.submit_tool_outputs(
        run.id,
        thread_id=run.thread_id,
        tool_outputs=[{"tool_call_id": call_id, "output": "42"}],
    )
    assert submitted.status == "queued"
    assert len(await store.read_entries(run.thread_id)) == before + 1


async def test_a_run_is_cancelled_without_a_refusal(lossy: Lossy, run: Run) -> None:
    lossy.network.lose()
    cancelled = await lossy.client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)
    assert cancelled.status == "cancelled"
    with pytest.raises(BadRequestError, match="Cannot cancel"):
        await lossy.client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)


async def test_what_was_deleted_is_not_reported_missing(
    lossy: Lossy, thread: Thread, assistant: Assistant
) -> None:
    beta, network = lossy.client.beta, lossy.network
    message = await beta.threads.messages.create(thread.id, role="user", content="Hi")
    network.lose()
    assert (await beta.threads.messages.delete(message.id, thread_id=thread.id)).deleted
    network.lose()
    assert (await beta.threads.delete(thread.id)).deleted
    network.lose()
    assert (await beta.assistants.delete(assistant.id)).deleted
    with pytest.raises(NotFoundError):
        await beta.threads.delete(thread.id)
    with pytest.raises(NotFoundError):
        await beta.threads.delete("thread_never", extra_headers=REPEATED)


async def test_a_refusal_is_repeated_as_it_was(
    lossy: Lossy, run: Run, assistant: Assistant
) -> None:
    lossy.network.lose()
    with pytest.raises(BadRequestError, match=f"already has an active run {run.id}"):
        await lossy.client.beta.threads.runs.create(
            run.thread_id, assistant_id=assistant.id, instructions="Another one"
        )


async def test_a_conversation_goes_on_whatever_answers_are_lost(
    lossy: Lossy, client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread
) -> None:
    """The same words again and again, and the next run at once when the last one has ended."""
    beta = lossy.client.beta
    made = []
    for number in range(24):
        if number % 6 == 1:
            lossy.network.lose()
        await beta.threads.messages.create(thread.id, role="user", content="And then?")
        if number % 6 == 4:
            lossy.network.lose()
        run = await beta.threads.runs.create(thread.id, assistant_id=assistant.id)
        await driver.answers(run, "The end")
        made.append(run.id)
    runs = [run.id async for run in client.beta.threads.runs.list(thread.id, order="asc")]
    messages = [one.id async for one in client.beta.threads.messages.list(thread.id, limit=100)]
    assert (runs, len(messages)) == (made, 48)


async def test_a_refusal_is_one_request(lossy: Lossy, run: Run) -> None:
    with pytest.raises(BadRequestError):
        await lossy.client.beta.threads.messages.create(run.thread_id, role="user", content="Hi")
    with pytest.raises(BadRequestError):
        await lossy.client.beta.threads.runs.submit_tool_outputs(
            run.id,
            thread_id=run.thread_id,
            tool_outputs=[{"tool_call_id": "call_1", "output": "42"}],
        )
    assert lossy.network.requests == 2


async def test_equal_requests_are_not_repetitions(
    client: AsyncOpenAI, store: Store, thread: Thread
) -> None:
    messages = client.beta.threads.messages
    twice = [await messages.create(thread.id, role="user", content="Yes") for _ in range(2)]
    assert twice[0].id != twice[1].id
    again = await messages.create(thread.id, role="user", content="Yes", extra_headers=REPEATED)
    assert again.id == twice[1].id
    threads = [await client.beta.threads.create() for _ in range(2)]
    assert threads[0].id != threads[1].id


async def test_another_key_or_another_body_is_another_request(
    client: AsyncOpenAI, thread: Thread
) -> None:
    messages = client.beta.threads.messages
    first = await messages.create(thread.id, role="user", content="Yes")
    stranger = client.with_options(api_key="other").beta.threads.messages
    ids = {
        first.id,
        (await messages.create(thread.id, role="user", content="No", extra_headers=REPEATED)).id,
        (await stranger.create(thread.id, role="user", content="Yes", extra_headers=REPEATED)).id,
    }
    assert len(ids) == 3


async def test_a_repetition_whose_first_try_never_arrived_is_carried_out(
    client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread
) -> None:
    """Equal requests came before, but the client has gone on from them."""
    runs, messages = client.beta.threads.runs, client.beta.threads.messages
    said = await messages.create(thread.id, role="user", content="Go on")
    first = await runs.create(thread.id, assistant_id=assistant.id)
    await driver.answers(first, "Done")
    again = await messages.create(thread.id, role="user", content="Go on", extra_headers=REPEATED)
    assert again.id != said.id
    second = await runs.create(thread.id, assistant_id=assistant.id, extra_headers=REPEATED)
    assert second.id != first.id


async def test_a_message_that_waits_is_gone_on_to_as_well(
    client: AsyncOpenAI, assistant: Assistant, run: Run
) -> None:
    """The first try of the last request never arrived; an equal one came before the message."""
    runs = client.beta.threads.runs
    waits = {"if_busy": "enqueue"}

    async def enqueue(repeated: dict[str, str] | None = None) -> str:
        queued = await runs.create(
            run.thread_id,
            assistant_id=assistant.id,
            additional_messages=[{"role": "user", "content": "And then?"}],
            extra_body=waits,
            extra_headers=repeated,
        )
        return queued.id

    first = await enqueue()
    assert await enqueue(REPEATED) == first
    await client.beta.threads.messages.create(
        run.thread_id, role="user", content="Hi", extra_body=waits
    )
    assert await enqueue(REPEATED) != first


async def test_two_repetitions_at_once_have_one_effect(
    client: AsyncOpenAI, assistant: Assistant, thread: Thread
) -> None:
    async def all_alike(create: object) -> set[str]:
        made = await asyncio.gather(*(create() for _ in range(8)))  # type: ignore[operator]
        return {one.id for one in made}

    beta, repeated = client.beta, REPEATED
    creations = (
        lambda: beta.threads.create(metadata={"a": "b"}, extra_headers=repeated),
        lambda: beta.threads.create_and_run(assistant_id=assistant.id, extra_headers=repeated),
        lambda: beta.assistants.create(model="scripted/inline", extra_headers=repeated),
        lambda: beta.threads.messages.create(
            thread.id, role="user", content="Hi", extra_headers=repeated
        ),
        lambda: beta.threads.runs.create(
            thread.id, assistant_id=assistant.id, extra_headers=repeated
        ),
    )
    for create in creations:
        assert len(await all_alike(create)) == 1


async def test_nobody_is_given_a_thread_that_may_be_another_users(client: AsyncOpenAI) -> None:
    """Two users of one program begin at the same time; which of them comes again is not known."""
    begun = {(await client.beta.threads.create()).id for _ in range(2)}
    again = await client.beta.threads.create(extra_headers=REPEATED)
    assert again.id not in begun


async def test_nobody_is_given_a_thread_that_is_in_use(client: AsyncOpenAI) -> None:
    used = await client.beta.threads.create()
    await client.beta.threads.messages.create(used.id, role="user", content="A secret")
    again = await client.beta.threads.create(extra_headers=REPEATED)
    assert again.id != used.id


async def test_threads_of_requests_that_look_alike_have_receipts_of_their_own(
    client: AsyncOpenAI,
) -> None:
    """Many of them share a partition."""
    begun = {(await client.beta.threads.create()).id for _ in range(40)}
    begun |= {(await client.beta.threads.create(extra_headers=REPEATED)).id for _ in range(40)}
    assert len(begun) == 80
