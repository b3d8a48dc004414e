"""Assistants of the app file, found by name with the stock SDK."""

import asyncio
from pathlib import Path

from openai import AsyncOpenAI

from orchestrator.app_file.app import App
from orchestrator.app_file.assistants import keep_assistants
from orchestrator.app_file.reader import load_app
from orchestrator.storage.valkey import ValkeyStore

TEXT = """
assistants:
  - {name: Reader, model: scripted/echo, temperature: 0.5, metadata: {shelf: a}}
  - {name: Writer, model: scripted/echo}
"""


def app(folder: Path, text: str = TEXT) -> App:
    path = folder / "runstate.yaml"
    path.write_text(text)
    return load_app(path)


async def names(client: AsyncOpenAI) -> list[str]:
    return sorted([str(found.name) async for found in client.beta.assistants.list()])


async def test_processes_that_start_together_make_each_assistant_once(
    store: ValkeyStore, client: AsyncOpenAI, tmp_path: Path
) -> None:
    await asyncio.gather(*(keep_assistants(store, app(tmp_path)) for _ in range(8)))
    assert await names(client) == ["Reader", "Writer"]
    reader = next(x for x in (await client.beta.assistants.list()).data if x.name == "Reader")
    assert (reader.model, reader.temperature, reader.metadata) == (
        "scripted/echo",
        0.5,
        {"shelf": "a"},
    )


async def test_one_that_is_as_the_file_has_it_is_not_written_again(
    store: ValkeyStore, client: AsyncOpenAI, tmp_path: Path
) -> None:
    for _ in range(2):
        await keep_assistants(store, app(tmp_path))
    found = (await client.beta.assistants.list()).data
    assert [(await store._load(assistant.id))[1] for assistant in found] == [1, 1]


async def test_one_that_a_client_made_is_taken_over_under_its_own_id(
    store: ValkeyStore, client: AsyncOpenAI, tmp_path: Path
) -> None:
    made = await client.beta.assistants.create(model="gpt-5", name="Reader", instructions="Read.")
    later = await client.beta.assistants.create(model="gpt-5", name="Reader")
    other = await client.beta.assistants.create(model="gpt-5", name="Somebody")
    await keep_assistants(store, app(tmp_path))
    assert await names(client) == ["Reader", "Reader", "Somebody", "Writer"]
    taken = await client.beta.assistants.retrieve(made.id)
    assert (taken.model, taken.instructions) == ("scripted/echo", None)
    assert (await client.beta.assistants.retrieve(later.id)).model == "gpt-5"
    assert await client.beta.assistants.retrieve(other.id) == other


async def test_what_the_file_no_longer_says_is_the_default_again(
    store: ValkeyStore, client: AsyncOpenAI, tmp_path: Path
) -> None:
    await keep_assistants(store, app(tmp_path))
    await keep_assistants(store, app(tmp_path, "assistants: [{name: Reader, model: m}]"))
    assert await names(client) == ["Reader", "Writer"]
    reader = next(x for x in (await client.beta.assistants.list()).data if x.name == "Reader")
    assert (reader.model, reader.temperature, reader.metadata) == ("m", 1.0, {})


async def test_one_that_was_deleted_is_made_again_under_its_id(
    store: ValkeyStore, client: AsyncOpenAI, tmp_path: Path
) -> None:
    await keep_assistants(store, app(tmp_path))
    before = {found.id for found in (await client.beta.assistants.list()).data}
    for assistant_id in before:
        await client.beta.assistants.delete(assistant_id)
    await keep_assistants(store, app(tmp_path))
    assert {found.id for found in (await client.beta.assistants.list()).data} == before


async def test_an_assistant_is_found_among_many(
    store: ValkeyStore, client: AsyncOpenAI, tmp_path: Path
) -> None:
    for number in range(120):
        await client.beta.assistants.create(model="m", name=f"Other {number}")
    made = await client.beta.assistants.create(model="m", name="Writer")
    await keep_assistants(store, app(tmp_path))
    assert (await client.beta.assistants.retrieve(made.id)).model == "scripted/echo"
