"""Threads and their messages: made, changed, read, deleted."""

import asyncio

import httpx2
import pytest
from openai import AsyncOpenAI, BadRequestError, NotFoundError
from openai.types.beta import Thread
from openai.types.beta.threads import Run

from orchestrator.store import Store
from tests.http.driver import Asked, Driver


@pytest.mark.parametrize("content", [None, b"", b"{}", b"null"])
async def test_a_thread_needs_no_body(http: httpx2.AsyncClient, content: bytes | None) -> None:
    headers = {"content-type": "application/json"} if content else {}
    response = await http.post("/v1/threads", content=content, headers=headers)
    assert response.status_code == 200
    body = response.json()
    assert body["id"].startswith("thread_")
    assert isinstance(body["created_at"], int)
    assert (body["object"], body["metadata"], body["tool_resources"]) == ("thread", {}, {})


async def test_a_fresh_thread_takes_messages_at_once(client: AsyncOpenAI) -> None:
    async def start(number: int) -> Thread:
        thread = await client.beta.threads.create(
            messages=[{"role": "user", "content": f"{number}"}]
        )
        await client.beta.threads.messages.create(thread.id, role="user", content="More")
        return thread

    threads = await asyncio.gather(*map(start, range(200)))
    assert len({thread.id for thread in threads}) == 200


async def test_metadata_and_resources_are_replaced_as_a_whole(client: AsyncOpenAI) -> None:
    thread = await client.beta.threads.create(metadata={"a": "1", "b": "2"})
    changed = await client.beta.threads.update(
        thread.id,
        metadata={"c": "3"},
        tool_resources={"code_interpreter": {"file_ids": ["file-1"]}},
    )
    assert changed.metadata == {"c": "3"}
    found = await client.beta.threads.update(thread.id)
    assert found.metadata == {"c": "3"}
    assert found.tool_resources is not None
    assert found.tool_resources.to_dict() == {"code_interpreter": {"file_ids": ["file-1"]}}
    assert (await client.beta.threads.update(thread.id, metadata=None)).metadata == {}


@pytest.mark.parametrize("state", ["queued", "in_progress", "waiting", "cancelling", "ended"])
async def test_a_thread_is_deleted_whatever_its_run_does(
    client: AsyncOpenAI, driver: Driver, run: Run, state: str
) -> None:
    threads = client.beta.threads
    if state == "waiting":
        await driver.asks(run, Asked("measure"), workers=("measure",))
    elif state != "queued":
        await driver.starts(run)
    if state in {"cancelling", "ended"}:
        await driver.cancels(run)
    deleted = await threads.delete(run.thread_id)
    assert deleted.to_dict() == {
        "id": run.thread_id,
        "object": "thread.deleted",
        "deleted": True,
    }
    for gone in (
        threads.retrieve(run.thread_id),
        threads.delete(run.thread_id),
        threads.runs.retrieve(run.id, thread_id=run.thread_id),
        threads.messages.create(run.thread_id, role="user", content="x"),
        threads.runs.create(run.thread_id, assistant_id=run.assistant_id),
    ):
        with pytest.raises(NotFoundError, match=f"No thread found with id '{run.thread_id}'."):
            await gone


async def test_deleting_a_thread_stops_its_calls_on_the_workers(
    client: AsyncOpenAI, driver: Driver, store: Store, run: Run
) -> None:
    (call_id,) = await driver.asks(run, Asked("measure"), workers=("measure",))
    await client.beta.threads.delete(run.thread_id)
    parcels = await store.take_parcels(10, 60_000)
    kinds = [type(parcel.order).__name__ for parcel in parcels]
    assert kinds == ["SendCall", "StopCall"]
    assert {parcel.order.call_id for parcel in parcels} == {call_id}


async def test_text_is_given_plainly_and_shown_with_annotations(client: AsyncOpenAI) -> None:
    thread = await client.beta.threads.create(metadata={"day": "2024-01-01"})
    assert thread.metadata == {"day": "2024-01-01"}
    plain = await client.beta.threads.messages.create(
        thread.id, role="user", content="2024-08-13 14:44:01"
    )
    shown = plain.to_dict()
    assert plain.id.startswith("msg_")
    assert {key: shown[key] for key in shown if key not in {"id", "created_at"}} == {
        "object": "thread.message",
        "thread_id": thread.id,
        "role": "user",
        "status": "completed",
        "incomplete_details": None,
        "completed_at": None,
        "incomplete_at": None,
        "content": [{"type": "text", "text": {"value": "2024-08-13 14:44:01", "annotations": []}}],
        "assistant_id": None,
        "run_id": None,
        "attachments": [],
        "metadata": {},
    }


async def test_parts_and_attachments_come_back(client: AsyncOpenAI, thread: Thread) -> None:
    message = await client.beta.threads.messages.create(
        thread.id,
        role="user",
        content=[
            {"type": "text", "text": "Look"},
            {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}},
            {"type": "image_file", "image_file": {"file_id": "file-1", "detail": "low"}},
        ],
        attachments=[{"file_id": "file-1", "tools": [{"type": "file_search"}]}],
        metadata={"k": "v"},
    )
    shown = (await client.beta.threads.messages.retrieve(message.id, thread_id=thread.id)).to_dict()
    assert shown["content"] == [
        {"type": "text", "text": {"value": "Look", "annotations": []}},
        {
            "type": "image_url",
            "image_url": {"url": "https://example.org/a.png", "detail": "auto"},
        },
        {"type": "image_file", "image_file": {"file_id": "file-1", "detail": "low"}},
    ]
    assert shown["attachments"] == [{"file_id": "file-1", "tools": [{"type": "file_search"}]}]


async def test_messages_are_changed_and_deleted(client: AsyncOpenAI, thread: Thread) -> None:
    messages = client.beta.threads.messages
    message = await messages.create(thread.id, role="assistant", content="Hello")
    changed = await messages.update(message.id, thread_id=thread.id, metadata={"k": "v"})
    assert (changed.metadata, changed.content) == ({"k": "v"}, message.content)
    deleted = await messages.delete(message.id, thread_id=thread.id)
    assert deleted.to_dict() == {
        "id": message.id,
        "object": "thread.message.deleted",
        "deleted": True,
    }
    for gone in (
        messages.retrieve(message.id, thread_id=thread.id),
        messages.update(message.id, thread_id=thread.id, metadata={}),
        messages.delete(message.id, thread_id=thread.id),
    ):
        with pytest.raises(NotFoundError, match=f"No message found with id '{message.id}'."):
            await gone
    assert (await messages.list(thread.id)).data == []


async def test_refused_messages_never_show_up(client: AsyncOpenAI, store: Store, run: Run) -> None:
    async def add(number: int) -> None:
        with pytest.raises(BadRequestError, match="while a run"):
            await client.beta.threads.messages.create(
                run.thread_id, role="assistant" if number % 2 else "user", content=str(number)
            )

    await asyncio.gather(*map(add, range(20)))
    await client.beta.threads.runs.cancel(run.id, thread_id=run.thread_id)
    assert (await client.beta.threads.messages.list(run.thread_id)).data == []
    assert await store.read_entries(run.thread_id) == ()  # of which prompts are made
