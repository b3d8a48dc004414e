"""Assistants: defaults for runs, which copy them; so nothing here touches a run under way."""

from contextlib import suppress
from functools import partial
from typing import Any

from fastapi import APIRouter, Response

from api.answers import answer
from api.attempts import AttemptDep, NamedAttemptDep
from api.bodies import StrictRoute
from api.lists import ListObject, PagingQuery, list_object
from api.ownership import StoreDep
from api.requests import AssistantFields, CreateAssistant, ModifyAssistant
from api.shapes import AssistantObject, DeletedObject, assistant_object, deleted_object
from orchestrator.ids import mint
from orchestrator.records import Assistant
from orchestrator.repetition import AlreadyDone, once

router = APIRouter(prefix="/assistants", tags=["assistants"], route_class=StrictRoute)


@router.post("", response_model=AssistantObject)
async def create_assistant(body: CreateAssistant, store: StoreDep, attempt: AttemptDep) -> Response:
    """Create an assistant."""
    fields = _fields(body) | {"id": mint("asst"), "created_ms": await store.now_ms()}
    assistant = Assistant.model_validate(fields)
    try:
        await once(store, attempt, partial(store.put_assistant, assistant), made=assistant.id)
    except AlreadyDone as done:
        assistant = await store.get_assistant(done.made)
    return answer(assistant_object(assistant))


@router.get("", response_model=ListObject[AssistantObject])
async def list_assistants(paging: PagingQuery, store: StoreDep) -> Response:
    """List assistants, newest first."""
    page = await store.list_assistants(paging.query())
    shown = [assistant_object(assistant) for assistant in page.items]
    return answer(list_object(shown, has_more=page.has_more))


@router.get("/{assistant_id}", response_model=AssistantObject)
async def get_assistant(assistant_id: str, store: StoreDep) -> Response:
    """Get an assistant."""
    return answer(assistant_object(await store.get_assistant(assistant_id)))


@router.post("/{assistant_id}", response_model=AssistantObject)
async def modify_assistant(
    assistant_id: str, body: ModifyAssistant, store: StoreDep, attempt: NamedAttemptDep
) -> Response:
    """Change what is given; ``null`` brings a default back."""
    write = partial(store.modify_assistant, assistant_id, _fields(body))
    try:
        changed = await once(store, attempt, write)
    except AlreadyDone:
        changed = await store.get_assistant(assistant_id)
    return answer(assistant_object(changed))


@router.delete("/{assistant_id}", response_model=DeletedObject)
async def delete_assistant(assistant_id: str, store: StoreDep, attempt: AttemptDep) -> Response:
    """Delete an assistant. Its threads, runs and messages stay."""
    with suppress(AlreadyDone):
        await once(store, attempt, partial(store.delete_assistant, assistant_id))
    return answer(deleted_object(assistant_id, "assistant"))


def _fields(body: AssistantFields) -> dict[str, Any]:
    """What the client gave, as fields of the record; ``null`` becomes the default."""
    return {
        name: Assistant.model_fields[name].get_default() if value is None else value
        for name, value in body.given().items()
    }
