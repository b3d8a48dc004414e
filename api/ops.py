"""For operators: runs with what clients are not shown, and the queues."""

import asyncio
from collections.abc import Set
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from redis import Redis, RedisError
from typing_extensions import TypedDict

from api.answers import answer
from api.explained import explained
from api.ownership import FOR_OPERATORS, StoreDep
from api.run_lines import RunLines, find_runs
from api.shapes import RunObject, StepObject, run_object
from api.steps import step_objects
from orchestrator.decisions import Event
from orchestrator.dispatch.queues import QueueReport, queue_report
from orchestrator.errors import StoreUnavailable
from orchestrator.records import Json, ToolCall
from orchestrator.states import RunStatus
from orchestrator.store import Store, served_queues

router = APIRouter(prefix="/ops", tags=["operations"])

SHOWN_OF_CALLS = {
    "id", "name", "executor", "state", "generation", "attempts", "queue", "worker", "created_ms",
    "dispatched_ms", "started_ms", "finished_ms", "deadline_ms", "approve_by_ms",
    "approved_ms", "progress", "drift", "error", "late",
}  # fmt: skip
"""What only the ledger knows; arguments and outputs are in the steps."""


class EventLine(TypedDict):
    """One event of a run's log."""

    id: str
    type: str
    at_ms: int
    status: str
    public_status: str
    detail: str | None


class Line(TypedDict):
    """One thing that happened, told in words."""

    at_ms: int
    subject: str
    text: str


class Stay(TypedDict):
    """A time that the run spent in one place."""

    place: str
    from_ms: int
    to_ms: int


class RunReport(TypedDict):
    """All that is known of one run, oldest first. ``why`` says in a sentence why it is where it is;
    ``unserved``: queues that its calls wait on, and no live worker listens to.
    """

    run: RunObject
    internal_status: str
    created_ms: int
    why: str
    timeline: list[Line]
    time_spent: list[Stay]
    steps: list[StepObject]
    calls: list[Json]
    events: list[EventLine]
    unserved: list[str]


class Queues(TypedDict):
    """The queues as they are now. ``unserved``: those where calls wait and no worker is alive (RQ
    lists one that was killed for another minute).
    """

    data: list[QueueReport]
    unserved: list[str]


@router.get("/queues", response_model=Queues, dependencies=[FOR_OPERATORS])
async def report_queues(request: Request, store: StoreDep) -> Response:
    """Every queue with its workers, as RQ knows them."""
    return answer(await queues_of(request, store))


async def queues_of(request: Request, store: Store) -> Queues:
    """The queues. Raises ``StoreUnavailable`` for their server."""
    client: Redis = request.app.state.queue_client
    try:
        reports = await asyncio.to_thread(queue_report, client)
    except RedisError as error:
        raise StoreUnavailable("The queue server did not answer.") from error
    waited_on = {report.name for report in reports if report.depth}
    return Queues(data=list(reports), unserved=await _unserved(store, waited_on))


@router.get("/runs", response_model=RunLines)
async def list_recent_runs(
    store: StoreDep,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
    status: RunStatus | None = None,
    thread_id: str | None = None,
    after: str | None = None,
) -> Response:
    """The newest runs of all threads, or those of one thread or status."""
    return answer(await find_runs(store, limit, status, thread_id or None, after or None))


@router.get("/runs/{run_id}", response_model=RunReport)
async def report_run(run_id: str, store: StoreDep) -> Response:
    """Everything about one run, wherever its thread is."""
    known = await explained(store, run_id)
    view = known.view
    report = RunReport(
        run=run_object(view.run, view.spec, view.calls),
        internal_status=view.run.status,
        created_ms=view.run.created_ms,
        why=known.why,
        timeline=[Line(at_ms=x.at_ms, subject=x.subject, text=x.text) for x in known.timeline],
        time_spent=[
            Stay(place=x.place, from_ms=x.from_ms, to_ms=x.to_ms) for x in known.time_spent
        ],
        steps=await step_objects(store, view, view.steps),
        calls=[_call_line(call) for call in view.calls],
        events=[_event_line(event_id, event) for event_id, event in known.events],
        unserved=list(known.unserved),
    )
    return answer(report)


async def _unserved(store: Store, queues: Set[str]) -> list[str]:
    return sorted(queues - await served_queues(store)) if queues else []


def _call_line(call: ToolCall) -> Json:
    return call.model_dump(mode="json", include=SHOWN_OF_CALLS)


def _event_line(event_id: str, event: Event) -> EventLine:
    return EventLine(
        id=event_id,
        type=event.type,
        at_ms=event.at_ms,
        status=event.status,
        public_status=event.public_status,
        detail=event.detail,
    )
