"""Objects that come from another server of this API, or go to one: ids and times stay as they are.

Assistants, threads and messages move; runs and their steps do not, nobody can go on with them. A
message keeps the ``run_id`` that it had.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic_core import to_json
from typing_extensions import TypedDict

from api.answers import answer
from api.bodies import StrictRoute
from api.connection import StoreDep
from api.imports import ImportedAssistant, ImportedMessage, ImportedThread
from api.shapes import assistant_object, message_object, thread_object
from orchestrator.commands import AddMessages, ImportMessage
from orchestrator.errors import NotFound
from orchestrator.records import Assistant, Message, Thread
from orchestrator.shell import change_thread, create_thread
from orchestrator.store import Page, PageQuery, Store

router = APIRouter(prefix="/ops", tags=["operations"], route_class=StrictRoute)

T = TypeVar("T", Assistant, Thread, Message)

Imported = Annotated[
    ImportedAssistant | ImportedThread | ImportedMessage, Field(discriminator="object")
]

PAGE: Final = 100
JSON_LINES: Final = "application/jsonl"


class Outcome(TypedDict):
    """What became of one object. ``different``: another one has its id, and stays as it is;
    ``differs`` names the fields.
    """

    id: str
    object: str
    outcome: Literal["imported", "same", "different"]
    differs: list[str]


@router.post("/import", response_model=Outcome)
async def import_object(body: Imported, store: StoreDep) -> Response:
    """Take one assistant, thread or message in the shape in which the API shows it. Safe to repeat.

    A message goes to the end of its thread, which must be there: oldest first.
    """
    there, new = await _import(store, body)
    differs = sorted(key for key in new if there is not None and there[key] != new[key])
    outcome: Literal["imported", "same", "different"]
    outcome = "imported" if there is None else "different" if differs else "same"
    return answer(Outcome(id=body.id, object=body.object, outcome=outcome, differs=differs))


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {JSON_LINES: {"schema": {"type": "string"}}}}},
)
async def export_objects(store: StoreDep) -> Response:
    """All assistants, then each thread with its messages, oldest first, one JSON object a line."""
    await store.now_ms()  # a store that is away is a 503, not an answer cut short
    return StreamingResponse(_lines(store), media_type=JSON_LINES)


Seen = tuple[Mapping[str, Any] | None, Mapping[str, Any]]
"""The object that has the id already, if one has, and the one that was given."""


async def _import(store: Store, given: Imported) -> Seen:
    if isinstance(given, ImportedAssistant):
        return await _import_assistant(store, given.record())
    if isinstance(given, ImportedThread):
        return await _import_thread(store, given.record())
    return await _import_message(store, given.record())


async def _import_assistant(store: Store, assistant: Assistant) -> Seen:
    there = await _found(store.get_assistant(assistant.id))
    if there is None:
        await store.put_assistant(assistant)
    return _shown(assistant_object, there), assistant_object(assistant)


async def _import_thread(store: Store, thread: Thread) -> Seen:
    there = await _found(store.load(thread.id))
    if there is None:
        await create_thread(store, thread, AddMessages(()))
    seen = None if there is None else thread_object(there.aggregate.thread)
    return seen, thread_object(thread)


async def _import_message(store: Store, message: Message) -> Seen:
    await store.load(message.thread_id)  # an unknown thread is told before an unknown message
    there = await _found(store.get_message(message.thread_id, message.id))
    if there is None:
        await change_thread(store, message.thread_id, ImportMessage(message))
    return _shown(message_object, there), message_object(message)


F = TypeVar("F")


def _shown(show: Callable[[T], Mapping[str, Any]], there: T | None) -> Mapping[str, Any] | None:
    return None if there is None else show(there)


async def _found(looking: Awaitable[F]) -> F | None:
    try:
        return await looking
    except NotFound:
        return None


async def _lines(store: Store) -> AsyncIterator[bytes]:
    async for assistant in _walk(store.list_assistants):
        yield _line(assistant_object(assistant))
    async for thread in _walk(store.list_threads):
        yield _line(thread_object(thread))

        async def messages(query: PageQuery, thread_id: str = thread.id) -> Page[Message]:
            return await store.list_messages(thread_id, query)

        async for message in _walk(messages):
            if message.status != "in_progress":
                yield _line(message_object(message))


async def _walk(read: Callable[[PageQuery], Awaitable[Page[T]]]) -> AsyncIterator[T]:
    """A whole list, oldest first."""
    after: str | None = None
    while True:
        page = await read(PageQuery(PAGE, "asc", after))
        for item in page.items:
            yield item
        if not page.has_more or not page.items:
            return
        after = page.items[-1].id


def _line(shown: Mapping[str, Any]) -> bytes:
    return to_json(shown) + b"\n"
