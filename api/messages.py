"""Messages of a thread. While a run is active, they are refused or wait, as their client wants."""

from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.answers import answer
from api.attempts import AttemptDep, NamedAttemptDep
from api.bodies import StrictRoute
from api.connection import SettingsDep
from api.lists import ListObject, Paging, list_object
from api.ownership import StoreDep
from api.requests import AddMessage, CreateMessage, ModifyMetadata, TextPart
from api.shapes import DeletedObject, MessageObject, deleted_object, message_object
from orchestrator.commands import AddMessages, IfBusy, NewMessage
from orchestrator.ids import mint
from orchestrator.records import Json
from orchestrator.repetition import AlreadyDone, once
from orchestrator.shell import change_thread

router = APIRouter(
    prefix="/threads/{thread_id}/messages", tags=["messages"], route_class=StrictRoute
)


class MessagePaging(Paging):
    """The query of a message list; ``run_id`` keeps only what that run wrote."""

    run_id: str | None = None


@router.post("", response_model=MessageObject)
async def create_message(
    thread_id: str, body: AddMessage, store: StoreDep, settings: SettingsDep, attempt: AttemptDep
) -> Response:
    """Add a message. While a run is active, ``if_busy`` says what to do; by default it is refused.
    One that waits can be read and listed when its time has come.
    """
    (new,) = new_messages([body])
    if_busy = IfBusy(body.if_busy or settings.if_busy)
    watchdog_ms = round(settings.cancel_watchdog_s * 1000)
    command = AddMessages((new,), if_busy, watchdog_ms)
    try:
        added, message_id = await change_thread(store, thread_id, command, attempt), new.id
    except AlreadyDone as done:
        added, message_id = (await store.load(thread_id)).aggregate, done.made
    waiting = (message for one in added.thread.waiting for message in one.messages)
    message = next((message for message in waiting if message.id == message_id), None)
    return answer(message_object(message or await store.get_message(thread_id, message_id)))


@router.get("", response_model=ListObject[MessageObject])
async def list_messages(
    thread_id: str, paging: Annotated[MessagePaging, Query()], store: StoreDep
) -> Response:
    """List messages, newest first."""
    run_id = paging.run_id or None
    await store.load(thread_id, run_id)  # what is unknown has no list, not an empty one
    page = await store.list_messages(thread_id, paging.query(), run_id)
    shown = [message_object(message) for message in page.items]
    return answer(list_object(shown, has_more=page.has_more))


@router.get("/{message_id}", response_model=MessageObject)
async def get_message(thread_id: str, message_id: str, store: StoreDep) -> Response:
    """Get a message."""
    return answer(message_object(await store.get_message(thread_id, message_id)))


@router.post("/{message_id}", response_model=MessageObject)
async def modify_message(
    thread_id: str,
    message_id: str,
    body: ModifyMetadata,
    store: StoreDep,
    attempt: NamedAttemptDep,
) -> Response:
    """Replace the metadata."""
    write = partial(store.modify_message, thread_id, message_id, body.changes())
    try:
        message = await once(store, attempt, write, thread_id=thread_id)
    except AlreadyDone:
        message = await store.get_message(thread_id, message_id)
    return answer(message_object(message))


@router.delete("/{message_id}", response_model=DeletedObject)
async def delete_message(
    thread_id: str, message_id: str, store: StoreDep, attempt: AttemptDep
) -> Response:
    """Take a message out of the thread; no later turn of the model will see it."""
    write = partial(store.delete_message, thread_id, message_id)
    with suppress(AlreadyDone):
        await once(store, attempt, write, thread_id=thread_id)
    return answer(deleted_object(message_id, "thread.message"))


def new_messages(bodies: Iterable[CreateMessage] | None) -> tuple[NewMessage, ...]:
    """Messages as commands carry them, with new ids."""
    return tuple(
        NewMessage(
            id=mint("msg"),
            role=body.role,
            content=_stored_content(body),
            attachments=tuple(part.given() for part in body.attachments or ()),
            metadata=body.metadata or {},
        )
        for body in bodies or ()
    )


def _stored_content(body: CreateMessage) -> tuple[Json, ...]:
    if isinstance(body.content, str):
        return (_text(body.content),)
    return tuple(
        _text(part.text) if isinstance(part, TextPart) else part.model_dump()
        for part in body.content
    )


def _text(value: str) -> Json:
    return {"type": "text", "text": {"value": value, "annotations": []}}
