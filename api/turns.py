"""Model turns: what a model was shown, what was left out and why, and what came of it."""

from fastapi import APIRouter, Response

from api.answers import answer
from api.ownership import StoreDep
from orchestrator.errors import NotFound
from orchestrator.llm.sent import request_body, weights
from orchestrator.records import Json
from orchestrator.shell import view_run
from orchestrator.store import RunRef, RunView, Store
from orchestrator.turn_record import TurnRecord

router = APIRouter(prefix="/threads/{thread_id}/runs/{run_id}/turns", tags=["turns"])


@router.get("", response_model=Json)
async def list_turns(thread_id: str, run_id: str, store: StoreDep) -> Response:
    """List the turns of a run, in order."""
    ref = RunRef(thread_id, run_id)
    view = await view_run(store, ref)
    lines = [_line(turn, view) for turn in await store.read_turns(ref)]
    return answer({"object": "list", "data": lines})


@router.get("/{number}", response_model=Json)
async def get_turn(thread_id: str, run_id: str, number: int, store: StoreDep) -> Response:
    """Get a turn, with the request as the provider got it. Entries that are gone are missing."""
    return answer(await turn_object(store, RunRef(thread_id, run_id), number))


async def turn_object(store: Store, ref: RunRef, number: int) -> Json:
    """One turn of a run. Raises ``NotFound``."""
    view = await view_run(store, ref)
    turn = next((turn for turn in await store.read_turns(ref) if turn.turn == number), None)
    if turn is None:
        raise NotFound("turn", str(number))
    entries = await store.read_entries(ref.thread_id)
    body = request_body(turn, ref.run_id, view.spec, entries)
    groups = weights(turn, entries)
    return _line(turn, view) | {"groups": groups, "request": body}


def _line(turn: TurnRecord, view: RunView) -> Json:
    """``cost_usd`` is ``null`` where the price or the usage is unknown."""
    price = view.spec.price
    cost_usd = price.of(turn.spent) if price and turn.spent else None
    fields = turn.as_ended_with(view.run).model_dump(mode="json")
    return {"object": "thread.run.turn", **fields, "cost_usd": cost_usd}
