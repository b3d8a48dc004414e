"""What deleting threads and assistants does to runs, and what it leaves to others."""

import asyncio

import pytest
from openai import AsyncOpenAI, NotFoundError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from orchestrator.commands import ClaimCall
from orchestrator.decisions import StopCall
from orchestrator.errors import NotFound
from orchestrator.housekeeping import fire_due
from orchestrator.shell import change_run
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import RunRef
from tests.http.driver import LEASE_MS, Asked, Driver
from tests.leaks import left_keys


async def finish_parcels(store: ValkeyStore) -> list[object]:
    """What is on the outboxes, taken off."""
    parcels = await store.take_parcels(100, 60_000)
    await store.finish_parcels([parcel.ticket for parcel in parcels])
    return [parcel.order for parcel in parcels]


async def test_the_runs_that_wait_go_with_their_thread(
    client: AsyncOpenAI, store: ValkeyStore, run: Run
) -> None:
    keys_before = set(await left_keys(store._client, "rs"))
    for _ in range(3):
        await client.beta.threads.runs.create(
            run.thread_id, assistant_id=run.assistant_id, extra_body={"if_busy": "enqueue"}
        )
    await client.beta.threads.delete(run.thread_id)
    with pytest.raises(NotFoundError):
        await client.beta.threads.delete(run.thread_id)
    assert await fire_due(store) == 1
    left = set(await left_keys(store._client, "rs"))
    assert not [key for key in left if run.thread_id in key or ":run" in key]
    assert left < keys_before


async def test_the_calls_of_a_deleted_thread_are_stopped_after_it_has_gone(
    client: AsyncOpenAI, driver: Driver, store: ValkeyStore, run: Run
) -> None:
    running, queued = await driver.asks(
        run, Asked("measure"), Asked("look_up"), workers=("measure", "look_up")
    )
    await finish_parcels(store)
    ref = RunRef(run.thread_id, run.id)
    await change_run(store, ref, ClaimCall(running, "worker-1", LEASE_MS))
    await client.beta.threads.delete(run.thread_id)
    await fire_due(store)
    assert await finish_parcels(store) == [
        StopCall(running, "tools", "worker-1"),
        StopCall(queued, "tools", None),
    ]


async def test_engines_and_workers_that_come_late_create_nothing(
    client: AsyncOpenAI, driver: Driver, store: ValkeyStore, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    await client.beta.threads.delete(run.thread_id)
    for _ in range(2):
        with pytest.raises(NotFound):
            await driver.starts(run)
        with pytest.raises(NotFound):
            await driver.works(run, call_id, "too late")
        await fire_due(store)
    left = await left_keys(store._client, "rs")
    assert not [key for key in left if run.thread_id in key or run.id in key]


async def test_deletions_that_meet_all_see_it_gone(
    client: AsyncOpenAI, store: ValkeyStore, run: Run
) -> None:
    threads = client.beta.threads
    deletions = (threads.delete(run.thread_id) for _ in range(10))
    outcomes = await asyncio.gather(*deletions, return_exceptions=True)
    assert {type(o) for o in outcomes if isinstance(o, BaseException)} <= {NotFoundError}
    assert any(not isinstance(outcome, BaseException) for outcome in outcomes)
    await fire_due(store)
    with pytest.raises(NotFoundError):
        await threads.retrieve(run.thread_id)


async def test_three_hundred_runs_of_deleted_threads_stand_in_nobodys_way(
    client: AsyncOpenAI, driver: Driver, store: ValkeyStore, assistant: Assistant
) -> None:
    threads = client.beta.threads
    for _ in range(30):
        runs = await asyncio.gather(
            *(threads.create_and_run(assistant_id=assistant.id) for _ in range(10))
        )
        await asyncio.gather(*(threads.delete(run.thread_id) for run in runs))
    wanted = await threads.create_and_run(assistant_id=assistant.id)
    due = await store.take_turns(1000, 60_000)
    assert len(due) == 301
    for turn in due:
        if turn.ref.run_id != wanted.id:
            with pytest.raises(NotFound):
                await store.load(turn.ref.thread_id, turn.ref.run_id)
    await store.finish_turns([turn.ticket for turn in due])
    await driver.answers(wanted, "Here you are.")
    while await fire_due(store):
        pass
    runs_left = [key for key in await left_keys(store._client, "rs") if ":run:" in key]
    assert [key.rsplit(":")[-1] for key in runs_left] == [wanted.id]


@pytest.mark.parametrize("change", ["delete", "update"])
@pytest.mark.parametrize("state", ["queued", "in_progress", "waiting", "ended"])
async def test_an_assistant_that_goes_or_changes_leaves_its_runs_alone(
    client: AsyncOpenAI, driver: Driver, run: Run, change: str, state: str
) -> None:
    threads = client.beta.threads
    call_ids: tuple[str, ...] = ()
    if state == "in_progress":
        await driver.starts(run)
    elif state == "waiting":
        call_ids = await driver.asks(run, Asked("look_up"))
    elif state == "ended":
        await driver.answers(run, "Here you are.")
    before = await threads.runs.retrieve(run.id, thread_id=run.thread_id)
    if change == "delete":
        await client.beta.assistants.delete(run.assistant_id)
        with pytest.raises(NotFoundError, match=run.assistant_id):
            await threads.create_and_run(assistant_id=run.assistant_id)
    else:
        await client.beta.assistants.update(run.assistant_id, model="other", tools=[])
    assert await threads.runs.retrieve(run.id, thread_id=run.thread_id) == before

    if state == "waiting":
        outputs = [{"tool_call_id": call_id, "output": "yes"} for call_id in call_ids]
        await threads.runs.submit_tool_outputs(
            run.id,
            thread_id=run.thread_id,
            tool_outputs=outputs,  # type: ignore[arg-type]
        )
    if state in {"queued", "waiting"}:
        await driver.answers(run, "Here you are.")
        ended = await threads.runs.retrieve(run.id, thread_id=run.thread_id)
        assert (ended.status, ended.assistant_id) == ("completed", run.assistant_id)


async def test_another_assistant_goes_on_where_a_deleted_one_has_been(
    client: AsyncOpenAI, driver: Driver, assistant: Assistant, thread: Thread, run: Run
) -> None:
    threads = client.beta.threads
    await driver.asks(run, Asked("measure"), workers=("measure",), text="One moment.")
    await threads.runs.cancel(run.id, thread_id=thread.id)
    await client.beta.assistants.delete(assistant.id)
    other = await client.beta.assistants.create(model="scripted/inline")
    second = await threads.runs.create(thread.id, assistant_id=other.id)
    await driver.answers(second, "Here you are.")
    written = (await threads.messages.list(thread.id, order="asc")).data
    assert [message.assistant_id for message in written] == [assistant.id, other.id]
    steps = await threads.runs.steps.list(run.id, thread_id=thread.id)
    assert {step.assistant_id for step in steps.data} == {assistant.id}
