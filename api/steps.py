"""Run steps: what a run did, one after another."""

from collections.abc import Sequence

from fastapi import APIRouter, Response

from api.answers import answer
from api.lists import ListObject, PagingQuery, list_object, page_of
from api.ownership import StoreDep
from api.shapes import StepObject, answered_seqs, step_object
from orchestrator.errors import NotFound
from orchestrator.records import Step
from orchestrator.shell import view_run
from orchestrator.store import RunRef, RunView, Store

router = APIRouter(prefix="/threads/{thread_id}/runs/{run_id}/steps", tags=["steps"])


@router.get("", response_model=ListObject[StepObject])
async def list_steps(thread_id: str, run_id: str, paging: PagingQuery, store: StoreDep) -> Response:
    """List the steps of a run, newest first."""
    view = await view_run(store, RunRef(thread_id, run_id))
    page = page_of(view.steps, paging.query())
    return answer(list_object(await step_objects(store, view, page.items), has_more=page.has_more))


@router.get("/{step_id}", response_model=StepObject)
async def get_step(thread_id: str, run_id: str, step_id: str, store: StoreDep) -> Response:
    """Get a step."""
    view = await view_run(store, RunRef(thread_id, run_id))
    step = next((step for step in view.steps if step.id == step_id), None)
    if step is None:
        raise NotFound("run step", step_id)
    (shown,) = await step_objects(store, view, [step])
    return answer(shown)


async def step_objects(store: Store, view: RunView, steps: Sequence[Step]) -> list[StepObject]:
    """The steps as clients see them, with the outputs read in one go."""
    shown = {step.id for step in steps}
    calls = [call for call in view.calls if call.step_id in shown]
    seqs = answered_seqs(calls)
    outputs = await store.read_outputs(view.run.thread_id, seqs) if seqs else {}
    return [step_object(step, view.run, view.spec, calls, outputs) for step in steps]
