"""Assistants: kept as they were given, changed field by field, deleted without a trace in runs."""

import pytest
from openai import AsyncOpenAI, NotFoundError
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run

from tests.http.driver import Asked, Driver


async def test_every_field_comes_back_as_it_was_given(client: AsyncOpenAI) -> None:
    parameters = {"type": "object", "properties": {"q": {"type": "string"}}}
    tools = [
        {"type": "function", "function": {"name": "f", "parameters": parameters}},
        {"type": "file_search", "file_search": {"max_num_results": 5}},
        {"type": "code_interpreter"},
    ]
    made = await client.beta.assistants.create(
        model="m",
        name="n",
        description="d",
        instructions="i",
        tools=tools,  # type: ignore[arg-type]
        tool_resources={"file_search": {"vector_store_ids": ["vs_1"]}},
        metadata={"k": "v"},
        temperature=0,
        top_p=0.5,
        response_format={"type": "json_object"},
        reasoning_effort="low",
    )
    found = await client.beta.assistants.retrieve(made.id)
    assert found.to_dict() == {
        "id": made.id,
        "object": "assistant",
        "created_at": made.created_at,
        "model": "m",
        "name": "n",
        "description": "d",
        "instructions": "i",
        "tools": tools,
        "tool_resources": {"file_search": {"vector_store_ids": ["vs_1"]}},
        "metadata": {"k": "v"},
        "temperature": 0.0,
        "top_p": 0.5,
        "response_format": {"type": "json_object"},
        "reasoning_effort": "low",
    }


async def test_a_bare_assistant_has_every_key(client: AsyncOpenAI) -> None:
    made = await client.beta.assistants.create(model="m")
    shown = made.to_dict()
    assert made.id.startswith("asst_")
    assert {key: shown[key] for key in shown if key not in {"id", "created_at"}} == {
        "object": "assistant",
        "model": "m",
        "name": None,
        "description": None,
        "instructions": None,
        "tools": [],
        "tool_resources": {},
        "metadata": {},
        "temperature": 1.0,
        "top_p": 1.0,
        "response_format": "auto",
        "reasoning_effort": None,
    }


async def test_a_change_touches_only_what_it_names_and_null_clears(client: AsyncOpenAI) -> None:
    made = await client.beta.assistants.create(
        model="m", name="n", instructions="i", metadata={"a": "1"}, temperature=0.1
    )
    await client.beta.assistants.update(made.id, name="other", metadata={"b": "2"})
    changed = await client.beta.assistants.update(made.id, instructions=None, temperature=None)
    assert (changed.name, changed.instructions, changed.model) == ("other", None, "m")
    assert (changed.metadata, changed.temperature) == ({"b": "2"}, 1.0)
    assert changed.created_at == made.created_at


async def test_a_deleted_assistant_is_gone(client: AsyncOpenAI, assistant: Assistant) -> None:
    deleted = await client.beta.assistants.delete(assistant.id)
    assert deleted.to_dict() == {
        "id": assistant.id,
        "object": "assistant.deleted",
        "deleted": True,
    }
    for again in (
        client.beta.assistants.retrieve(assistant.id),
        client.beta.assistants.delete(assistant.id),
        client.beta.assistants.update(assistant.id, name="x"),
    ):
        with pytest.raises(NotFoundError, match=f"No assistant found with id '{assistant.id}'."):
            await again
    assert (await client.beta.assistants.list()).data == []


async def test_runs_finish_and_conversations_stay_readable_without_their_assistant(
    client: AsyncOpenAI, driver: Driver, thread: Thread, run: Run
) -> None:
    threads = client.beta.threads
    (call_id,) = await driver.asks(run, Asked("look_up"), text="Let me see.")
    await client.beta.assistants.delete(run.assistant_id)
    await threads.runs.submit_tool_outputs(
        run.id,
        thread_id=thread.id,
        tool_outputs=[{"tool_call_id": call_id, "output": "it"}],
    )
    await driver.answers(run, "Done")
    ended = await threads.runs.retrieve(run.id, thread_id=thread.id)
    assert (ended.status, ended.assistant_id) == ("completed", run.assistant_id)
    messages = await threads.messages.list(thread.id)
    assert {message.assistant_id for message in messages.data} == {run.assistant_id}
    assert len((await threads.runs.steps.list(run.id, thread_id=thread.id)).data) == 3
    with pytest.raises(NotFoundError, match="No assistant found"):
        await threads.runs.create(thread.id, assistant_id=run.assistant_id)
    other = await client.beta.assistants.create(model="m")
    again = await threads.runs.create(thread.id, assistant_id=other.id)
    assert again.status == "queued"
