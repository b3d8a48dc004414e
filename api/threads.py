"""Threads: conversations that runs read and write."""

from contextlib import suppress
from functools import partial

from fastapi import APIRouter, Response

from api.answers import answer
from api.attempts import AttemptDep, NamedAttemptDep
from api.bodies import StrictRoute
from api.lists import ListObject, PagingQuery, list_object
from api.messages import new_messages
from api.ownership import StoreDep
from api.requests import CreateThread, ModifyThread
from api.shapes import DeletedObject, ThreadObject, deleted_object, thread_object
from orchestrator import shell
from orchestrator.commands import AddMessages
from orchestrator.ids import mint
from orchestrator.records import Thread
from orchestrator.repetition import AlreadyDone, once
from orchestrator.shell import create_thread

router = APIRouter(prefix="/threads", tags=["threads"], route_class=StrictRoute)


@router.post("", response_model=ThreadObject)
async def make_thread(
    store: StoreDep, attempt: AttemptDep, body: CreateThread | None = None
) -> Response:
    """Create a thread, with messages if any are given."""
    body = body or CreateThread()
    command = AddMessages(new_messages(body.messages))
    try:
        made = await create_thread(store, new_thread(body), command, attempt)
    except AlreadyDone as done:
        made = (await store.load(done.thread_id)).aggregate
    return answer(thread_object(made.thread))


@router.get("", response_model=ListObject[ThreadObject])
async def list_threads(paging: PagingQuery, store: StoreDep) -> Response:
    """List threads, newest first."""
    page = await store.list_threads(paging.query())
    shown = [thread_object(thread) for thread in page.items]
    return answer(list_object(shown, has_more=page.has_more))


@router.get("/{thread_id}", response_model=ThreadObject)
async def get_thread(thread_id: str, store: StoreDep) -> Response:
    """Get a thread."""
    loaded = await store.load(thread_id)
    return answer(thread_object(loaded.aggregate.thread))


@router.post("/{thread_id}", response_model=ThreadObject)
async def modify_thread(
    thread_id: str, body: ModifyThread, store: StoreDep, attempt: NamedAttemptDep
) -> Response:
    """Replace the metadata or the tool resources."""
    write = partial(store.modify_thread, thread_id, body.changes())
    try:
        thread = await once(store, attempt, write, thread_id=thread_id)
    except AlreadyDone:
        thread = (await store.load(thread_id)).aggregate.thread
    return answer(thread_object(thread))


@router.delete("/{thread_id}", response_model=DeletedObject)
async def delete_thread(thread_id: str, store: StoreDep, attempt: AttemptDep) -> Response:
    """Delete a thread with everything of it. Its active run and those that wait are cancelled."""
    with suppress(AlreadyDone):
        await shell.delete_thread(store, thread_id, attempt)
    return answer(deleted_object(thread_id, "thread"))


def new_thread(body: CreateThread) -> Thread:
    """The thread that is asked for; the store sets its time."""
    return Thread(id=mint("thread"), created_ms=0, **body.changes())
