"""Messages of a thread. None can be added while a run is active."""

from collections.abc import Iterable
from typing import Annotated

from fastapi import APIRouter, Query, Response

from api.answers import answer
from api.bodies import StrictRoute
from api.connection import StoreDep
from api.lists import ListObject, Paging, list_object
from api.requests import CreateMessage, ModifyMetadata, TextPart
from api.shapes import DeletedObject, MessageObject, deleted_object, message_object
from orchestrator.commands import AddMessages, NewMessage
from orchestrator.ids import mint
from orchestrator.records import Json
from orchestrator.shell import change_thread

router = APIRouter(
    prefix="/threads/{thread_id}/messages", tags=["messages"], route_class=StrictRoute
)


class MessagePaging(Paging):
    """The query of a message list; ``run_id`` keeps only what that run wrote."""

    run_id: str | None = None


@router.post("", response_model=MessageObject)
async def create_message(thread_id: str, body: CreateMessage, store: StoreDep) -> Response:
    """Add a message."""
    (message,) = new_messages([body])
    await change_thread(store, thread_id, AddMessages((message,)))
    return answer(message_object(await store.get_message(thread_id, message.id)))


@router.get("", response_model=ListObject[MessageObject])
async def list_messages(
    thread_id: str, paging: Annotated[MessagePaging, Query()], store: StoreDep
) -> Response:
    """List messages, newest first."""
    await store.load(thread_id)  # an unknown thread has no list, not an empty one
    page = await store.list_messages(thread_id, paging.query(), paging.run_id)
    shown = [message_object(message) for message in page.items]
    return answer(list_object(shown, has_more=page.has_more))


@router.get("/{message_id}", response_model=MessageObject)
async def get_message(thread_id: str, message_id: str, store: StoreDep) -> Response:
    """Get a message."""
    return answer(message_object(await store.get_message(thread_id, message_id)))


@router.post("/{message_id}", response_model=MessageObject)
async def modify_message(
    thread_id: str, message_id: str, body: ModifyMetadata, store: StoreDep
) -> Response:
    """Replace the metadata."""
    message = await store.modify_message(thread_id, message_id, body.changes())
    return answer(message_object(message))


@router.delete("/{message_id}", response_model=DeletedObject)
async def delete_message(thread_id: str, message_id: str, store: StoreDep) -> Response:
    """Take a message out of the thread; no later turn of the model will see it."""
    await store.delete_message(thread_id, message_id)
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
