"""Streams of runs: opened by the request that starts one, or joined later."""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Header, Query, Request, Response

from api.ownership import StoreDep
from api.streaming.places import Place
from api.streaming.readers import Readers
from api.streaming.response import EventStream
from orchestrator.decisions import EventType
from orchestrator.errors import LogExpired
from orchestrator.records import Aggregate
from orchestrator.shell import view_run
from orchestrator.store import RunRef, RunView, Store

MAY_STREAM: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"text/event-stream": {"schema": {"type": "object", "required": ["event"]}}}}
}
"""For the OpenAPI document, of routes that stream if they are asked to."""

_ANSWERS: Final = frozenset({EventType.CALL_SETTLED, EventType.CALL_APPROVED})
"""What a submit tells of a call first."""

router = APIRouter(prefix="/threads/{thread_id}/runs/{run_id}", tags=["runs"])


async def _readers_of(request: Request) -> Readers:
    readers: Readers = request.app.state.readers
    return readers


ReadersDep = Annotated[Readers, Depends(_readers_of)]


@router.get("/events", response_class=Response, responses=MAY_STREAM)
async def read_events(  # noqa: PLR0913, PLR0917
    thread_id: str,
    run_id: str,
    store: StoreDep,
    readers: ReadersDep,
    after: Annotated[
        str | None, Query(description="The id of the last event that was had.")
    ] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """Stream all that a run tells, from its beginning or from behind an event, to its end."""
    place = Place.read(after or last_event_id or "0", "after" if after else "Last-Event-ID")
    view = await _readable(store, RunRef(thread_id, run_id))
    return EventStream(readers, store, view, place, has_ids=True, ends_at_question=False)


async def _readable(store: Store, ref: RunRef) -> RunView:
    """The run, if it is there and so is its log. One round trip, two if it has ended."""
    view = await view_run(store, ref)
    if view.run.is_final and not await store.read_events(ref, limit=1):
        raise LogExpired(ref.run_id)
    return view


def stream_from_start(
    readers: Readers, store: Store, committed: Aggregate, head: bytes = b""
) -> EventStream:
    """The stream of a run that has been created, behind the frames of ``head``."""
    return EventStream(readers, store, _view(committed), head=head)


async def stream_on(
    readers: Readers, store: Store, committed: Aggregate, call_ids: frozenset[str]
) -> EventStream:
    """The stream that goes on where these calls were answered, however long ago that was."""
    view = _view(committed)
    asked_ms = min(call.created_ms for call in view.calls if call.id in call_ids)
    ref = RunRef(view.run.thread_id, view.run.id)
    return EventStream(readers, store, view, await _answered_at(store, ref, call_ids, asked_ms))


async def _answered_at(store: Store, ref: RunRef, call_ids: frozenset[str], asked_ms: int) -> Place:
    """The first event of the commit that answered the calls; it has no frames. Ids begin with the
    time, so the log is read from where the calls were asked for.
    """
    for event_id, event in await store.read_events(ref, f"{max(asked_ms - 1, 0)}-0"):
        call = event.call
        if event.type in _ANSWERS and call is not None and call.id in call_ids:
            return Place.read(event_id)
    return Place(asked_ms)


def _view(committed: Aggregate) -> RunView:
    run, spec = committed.run, committed.spec
    assert run is not None and spec is not None  # noqa: S101, PT018 - it was committed
    return RunView(run, spec, committed.steps, committed.calls, now_ms=run.updated_ms)
