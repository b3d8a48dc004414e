"""Objects that come from another server of this API, or go to one: ids and times stay as they are.

Assistants, threads and messages move; runs and their steps do not, nobody can go on with them. A
message keeps the ``run_id`` that it had.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from typing import Annotated, Any, Final, Literal, TypeVar

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from pydantic_core import to_json
from typing_extensions import TypedDict

from api.answers import answer
from api.bodies import StrictRoute
from api.imports import ImportedAssistant, ImportedMessage, ImportedThread
from api.ownership import FOR_OPERATORS, StoreDep, TenantDep
from api.shapes import assistant_object, message_object, thread_object
from orchestrator.commands import AddMessages
from orchestrator.errors import NotFound, OperatorsOnly, StaleRevision
from orchestrator.records import DEFAULT_TENANT, Assistant, Message, Thread
from orchestrator.repetition import AlreadyDone
from orchestrator.settings import TENANT_NAME
from orchestrator.shell import create_thread, import_message
from orchestrator.store import Page, PageQuery, Store

router = APIRouter(prefix="/ops", tags=["operations"], route_class=StrictRoute)

T = TypeVar("T", Assistant, Thread, Message)

Tenant = Annotated[str, Query(pattern=f"^{TENANT_NAME}$")]
"""The name of a tenant, as keys have it."""

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


@router.post("/import", response_model=Outcome, dependencies=[FOR_OPERATORS])
async def import_object(
    body: Imported, store: StoreDep, tenant: Tenant = DEFAULT_TENANT
) -> Response:
    """Take one assistant, thread or message in the shape in which the API shows it. Safe to repeat.

    A message goes to the end of its thread, which must be there: oldest first. Ids are those of all
    tenants, so this is for the operator; what is imported belongs to ``tenant``.
    """
    try:
        there, new = await _import(store, body, tenant)
    except StaleRevision:  # another import of it came first
        there, new = await _import(store, body, tenant)
    differs = sorted(key for key in new if there is not None and there[key] != new[key])
    outcome: Literal["imported", "same", "different"]
    outcome = "imported" if there is None else "different" if differs else "same"
    return answer(Outcome(id=body.id, object=body.object, outcome=outcome, differs=differs))


@router.get(
    "/export",
    response_class=StreamingResponse,
    responses={200: {"content": {JSON_LINES: {"schema": {"type": "string"}}}}},
)
async def export_objects(
    store: StoreDep, mine: TenantDep, tenant: Tenant | None = None
) -> Response:
    """All assistants, then each thread with its messages, oldest first, one JSON object a line; to
    the operator, those of one tenant if it is named.
    """
    if tenant is not None and mine not in {None, tenant}:
        raise OperatorsOnly("What belongs to another tenant")
    if tenant is not None:
        store = store.seen_by(tenant)
    await store.now_ms()  # a store that is away is a 503, not an answer cut short
    return StreamingResponse(_lines(store), media_type=JSON_LINES)


Seen = tuple[Mapping[str, Any] | None, Mapping[str, Any]]
"""The object that has the id already, if one has, and the one that was given."""


async def _import(store: Store, given: Imported, tenant: str) -> Seen:
    if isinstance(given, ImportedAssistant):
        return await _import_assistant(store, given.record().but(tenant=tenant))
    if isinstance(given, ImportedThread):
        return await _import_thread(store, given.record().but(tenant=tenant))
    return await _import_message(store, given.record())


async def _import_assistant(store: Store, assistant: Assistant) -> Seen:
    there = await _found(store.get_assistant(assistant.id))
    if there is None:
        await store.put_assistant(assistant)
    return _owned(assistant_object, there), _owned(assistant_object, assistant)


async def _import_thread(store: Store, thread: Thread) -> Seen:
    loaded = await _found(store.load(thread.id))
    if loaded is None:
        await store.clear_thread(thread.id)  # of another one's runs, if it was deleted just now
        await create_thread(store, thread, AddMessages(()))
    there = None if loaded is None else loaded.aggregate.thread
    return _owned(thread_object, there), _owned(thread_object, thread)


async def _import_message(store: Store, message: Message) -> Seen:
    there = None
    try:
        await import_message(store, message)
    except AlreadyDone:
        there = await store.get_message(message.thread_id, message.id)
    return _shown(message_object, there), message_object(message)


F = TypeVar("F")
Owned = TypeVar("Owned", Assistant, Thread)


def _shown(show: Callable[[T], Mapping[str, Any]], there: T | None) -> Mapping[str, Any] | None:
    return None if there is None else show(there)


def _owned(show: Callable[[Owned], Mapping[str, Any]], there: Owned | None) -> Any:
    """As it is shown, and whose it is: what is another tenant's is not the same."""
    return None if there is None else {**show(there), "tenant": there.tenant}


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
