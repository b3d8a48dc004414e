"""Assistants: defaults for runs, which copy them; so nothing here touches a run under way."""

from typing import Any

from fastapi import APIRouter, Response

from api.answers import answer
from api.attempts import AttemptDep, RepetitionDep, delete_once
from api.bodies import StrictRoute
from api.connection import StoreDep
from api.lists import ListObject, PagingQuery, list_object
from api.requests import AssistantFields, CreateAssistant, ModifyAssistant
from api.shapes import AssistantObject, DeletedObject, assistant_object, deleted_object
from orchestrator import shell
from orchestrator.ids import mint
from orchestrator.records import Assistant
from orchestrator.repetition import AlreadyDone

router = APIRouter(prefix="/assistants", tags=["assistants"], route_class=StrictRoute)


@router.post("", response_model=AssistantObject)
async def create_assistant(body: CreateAssistant, store: StoreDep, attempt: AttemptDep) -> Response:
    """Create an assistant."""
    fields = _fields(body) | {"id": mint("asst"), "created_ms": await store.now_ms()}
    assistant = Assistant.model_validate(fields)
    try:
        await shell.create_assistant(store, assistant, attempt)
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
async def modify_assistant(assistant_id: str, body: ModifyAssistant, store: StoreDep) -> Response:
    """Change what is given; ``null`` brings a default back."""
    assistant = await store.get_assistant(assistant_id)
    changed = Assistant.model_validate(assistant.model_dump() | _fields(body))
    await store.put_assistant(changed, is_new=False)
    return answer(assistant_object(changed))


@router.delete("/{assistant_id}", response_model=DeletedObject)
async def delete_assistant(
    assistant_id: str, store: StoreDep, is_repetition: RepetitionDep
) -> Response:
    """Delete an assistant. Its threads, runs and messages stay."""
    await delete_once(
        store.delete_assistant(assistant_id),
        is_repetition=is_repetition,
        is_gone=lambda: store.is_deleted("assistant", assistant_id),
    )
    return answer(deleted_object(assistant_id, "assistant"))


def _fields(body: AssistantFields) -> dict[str, Any]:
    """What the client gave, as fields of the record; ``null`` becomes the default."""
    return {
        name: Assistant.model_fields[name].get_default() if value is None else value
        for name, value in body.given().items()
    }
