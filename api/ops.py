"""For operators: runs with what clients are not shown, and the queues."""

import asyncio
from collections.abc import Set
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from redis import Redis, RedisError
from typing_extensions import TypedDict

from api.answers import answer
from api.connection import StoreDep
from api.runs import on_time
from api.shapes import RunObject, StepObject, run_object
from api.steps import step_objects
from orchestrator.decisions import Event
from orchestrator.dispatch.queues import QueueReport, queue_report
from orchestrator.errors import StoreUnavailable
from orchestrator.projection import public_status
from orchestrator.records import CallState, Json, Run, ToolCall
from orchestrator.shell import view_run
from orchestrator.states import RunStatus
from orchestrator.store import RunView, Store, served_queues

router = APIRouter(prefix="/ops", tags=["operations"])

SHOWN_OF_CALLS = {
    "id", "name", "executor", "state", "generation", "attempts", "queue", "worker", "created_ms",
    "dispatched_ms", "started_ms", "finished_ms", "deadline_ms", "approve_by_ms",
    "approved_ms", "progress", "drift", "error", "late",
}  # fmt: skip
"""What only the ledger knows; arguments and outputs are in the steps."""


class CallCounts(TypedDict):
    """Tool calls of a run, by whether the model has its answer."""

    open: int
    settled: int


class RunLine(TypedDict):
    """A run in one line."""

    id: str
    thread_id: str
    status: str
    internal_status: str
    created_at: int
    ended_at: int | None
    model: str
    turns: int
    calls: CallCounts


class RunLines(TypedDict):
    """The newest runs."""

    data: list[RunLine]


class EventLine(TypedDict):
    """One event of a run's log."""

    id: str
    type: str
    at_ms: int
    status: str
    public_status: str
    detail: str | None


class RunReport(TypedDict):
    """All that is known of one run, oldest first. ``unserved``: queues that its calls wait on, and
    no live worker listens to.
    """

    run: RunObject
    internal_status: str
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


@router.get("/queues", response_model=Queues)
async def report_queues(request: Request, store: StoreDep) -> Response:
    """Every queue with its workers, as RQ knows them."""
    client: Redis = request.app.state.queue_client
    try:
        reports = await asyncio.to_thread(queue_report, client)
    except RedisError as error:
        raise StoreUnavailable("The queue server did not answer.") from error
    waited_on = {report.name for report in reports if report.depth}
    return answer(Queues(data=list(reports), unserved=await _unserved(store, waited_on)))


@router.get("/runs", response_model=RunLines)
async def list_recent_runs(
    store: StoreDep, limit: Annotated[int, Query(ge=1, le=100)] = 20
) -> Response:
    """The newest runs of all threads."""
    views = await store.recent_runs(limit)
    return answer(RunLines(data=[_line(await on_time(store, view)) for view in views]))


@router.get("/runs/{run_id}", response_model=RunReport)
async def report_run(run_id: str, store: StoreDep) -> Response:
    """Everything about one run, wherever its thread is."""
    ref = await store.find_run(run_id)
    view = await view_run(store, ref)
    events = await store.read_events(ref)
    waited_on = {x.queue for x in view.calls if x.queue and x.state is CallState.DISPATCHED}
    report = RunReport(
        run=run_object(view.run, view.spec, view.calls),
        internal_status=view.run.status,
        steps=await step_objects(store, view, view.steps),
        calls=[_call_line(call) for call in view.calls],
        events=[_event_line(event_id, event) for event_id, event in events],
        unserved=await _unserved(store, waited_on),
    )
    return answer(report)


async def _unserved(store: Store, queues: Set[str]) -> list[str]:
    return sorted(queues - await served_queues(store)) if queues else []


def _line(view: RunView) -> RunLine:
    run = view.run
    settled = sum(call.is_settled for call in view.calls)
    return RunLine(
        id=run.id,
        thread_id=run.thread_id,
        status=public_status(run, view.calls),
        internal_status=run.status,
        created_at=run.created_ms // 1000,
        ended_at=_ended_at(run),
        model=view.spec.model,
        turns=run.turns,
        calls=CallCounts(open=len(view.calls) - settled, settled=settled),
    )


def _ended_at(run: Run) -> int | None:
    """An expired run has no time of its own: it ended at its deadline."""
    expired_ms = run.deadline_ms if run.status is RunStatus.EXPIRED else None
    ended_ms = run.completed_ms or run.failed_ms or run.cancelled_ms or expired_ms
    return None if ended_ms is None else ended_ms // 1000


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
