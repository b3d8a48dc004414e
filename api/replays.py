"""Replays: a stored run again, with another model, prompt or tools (an extension)."""

from collections.abc import Iterator

from fastapi import APIRouter, Response

from api.attempts import AttemptDep
from api.bodies import StrictRoute
from api.connection import SettingsDep
from api.ownership import StoreDep
from api.requests import ReplayRun
from api.runs import answer_run, refuse_foreign_tools, run_after
from api.shapes import RunObject
from orchestrator.commands import CreateRun
from orchestrator.ids import mint
from orchestrator.records import Entry, Message, RunSpec, Thread
from orchestrator.replay import past
from orchestrator.settings import Settings
from orchestrator.shell import create_thread, view_run
from orchestrator.store import RunRef

router = APIRouter(prefix="/threads", tags=["runs"], route_class=StrictRoute)


@router.post("/{thread_id}/runs/{run_id}/replay", response_model=RunObject)
async def replay_run(  # noqa: PLR0913, PLR0917
    thread_id: str,
    run_id: str,
    body: ReplayRun,
    store: StoreDep,
    settings: SettingsDep,
    attempt: AttemptDep,
) -> Response:
    """Run a copy of the thread as it was before the run. No worker takes part: all calls are the
    client's, who knows the outputs of the run. Delete the new thread when it is of no use any more.
    """
    ref = RunRef(thread_id, run_id)
    view = await view_run(store, ref)
    before = past(view.run, await store.read_turns(ref), await store.read_entries(thread_id))
    thread = Thread(id=mint("thread"), created_ms=0, metadata={"replay_of": run_id})
    command = CreateRun(
        run_id=mint("run"),
        spec=_spec(view.spec, body, settings),
        ttl_ms=round(settings.run_ttl_s * 1000),
        metadata=body.metadata or {},
        past=tuple(_copies(before)),
    )
    change = create_thread(store, thread, command, attempt)
    return answer_run(await run_after(store, change, command.run_id))


def _copies(entries: tuple[Entry, ...]) -> Iterator[Entry]:
    """The same for another thread: ids of messages are never used twice."""
    for entry in entries:
        yield entry.but(id=mint("msg")) if isinstance(entry, Message) else entry


def _spec(recorded: RunSpec, body: ReplayRun, settings: Settings) -> RunSpec:
    """As recorded, limits included, but for what the body names, and the price of another model."""
    given = {name: value for name, value in body.given().items() if value is not None}
    fields = recorded.model_dump() | given | {"executor": "client"}
    if body.model is not None:
        fields["price"] = settings.limits_of_runs(body.model)["price"]
    spec = RunSpec.model_validate(fields)
    refuse_foreign_tools(spec, settings)
    return spec
