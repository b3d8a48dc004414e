"""What workers without a store do through the api: ``orchestrator/ledger.py`` over HTTP.

Not for clients, and so not in the OpenAPI document: both ends are ours and of one version. A key is
good for the calls of its tools; of all others it is told that they do not exist. The arguments of a
call are in the answer to its claim, nowhere else.
"""

import hashlib
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Request, Response
from pydantic import TypeAdapter, ValidationError
from starlette.exceptions import HTTPException

from api.answers import answer
from api.auth import is_same, token_of
from api.bodies import StrictRoute
from api.connection import SettingsDep
from api.ownership import StoreDep
from orchestrator.commands import ClaimCall
from orchestrator.errors import InvalidValue, NotFound
from orchestrator.fields import Body
from orchestrator.ledger import VERBS, CallCommand, Sighting, StoreLedger
from orchestrator.records import Executor, ToolCall, ToolSpec
from orchestrator.settings import WorkerKey
from orchestrator.store import Presence, RunRef

CALL: Final = "/threads/{thread_id}/runs/{run_id}/calls/{call_id}"

router = APIRouter(prefix="/workers", route_class=StrictRoute, include_in_schema=False)


class Announcement(Body):
    """A worker is alive, on one queue, and serves these tools."""

    worker: str
    queue: str
    host: str
    pid: str
    ttl_ms: int
    tools: list[ToolSpec]
    tools_ttl_s: int


class Leave(Body):
    """A worker ends."""

    worker: str


class Lease(Body):
    """The holder of this generation is alive."""

    generation: int
    lease_ms: int
    cap_ms: int


class Slot(Body):
    """One of the executions of a tool that there may be at once, and who has it."""

    tool: str
    holder: str
    slots: int = 0
    hold_ms: int = 0


class Shape(Body):
    """The JSON shape of a tool's output."""

    tool: str
    shape: str


async def _ledger(store: StoreDep) -> StoreLedger:
    return StoreLedger(store)


async def _key(request: Request, settings: SettingsDep) -> WorkerKey:
    given = token_of(request.headers)
    return next(key for key in settings.worker_keys if is_same(given, key.secret))


LedgerDep = Annotated[StoreLedger, Depends(_ledger)]
KeyDep = Annotated[WorkerKey, Depends(_key)]


async def _ref(thread_id: str, run_id: str) -> RunRef:
    return RunRef(thread_id, run_id)


RefDep = Annotated[RunRef, Depends(_ref)]


async def _seen(ref: RefDep, call_id: str, key: KeyDep, ledger: LedgerDep) -> Sighting:
    """The call, if it is one for workers and of a tool of this key."""
    seen = await ledger.find(ref, call_id)
    if seen.call.executor is not Executor.WORKER or not key.serves(seen.call.name):
        raise NotFound("tool call", call_id)
    return seen


SeenDep = Annotated[Sighting, Depends(_seen)]


@router.get("/key")
async def look_at_key(key: KeyDep) -> Response:
    """What the key is good for."""
    return answer({"tools": sorted(key.tools)})


@router.post("/presence")
async def announce(body: Announcement, key: KeyDep, ledger: LedgerDep, store: StoreDep) -> Response:
    """A heartbeat of the worker, and the publication of its tools."""
    _check_tools(key, *(tool.name for tool in body.tools))
    if {tool.queue for tool in body.tools} != {body.queue}:
        raise InvalidValue("The tools of a worker are all on its queue.", "queue")
    await _check_name(store, key, body.worker)
    about = {"queue": body.queue, "host": body.host, "pid": body.pid, "key": _mark(key)}
    presence = Presence("worker", body.worker, about)
    await ledger.announce(presence, body.ttl_ms, body.tools, body.tools_ttl_s)
    return answer({})


@router.post("/leave")
async def leave(body: Leave, key: KeyDep, ledger: LedgerDep, store: StoreDep) -> Response:
    """The worker's last word."""
    await _check_name(store, key, body.worker)
    await ledger.leave(body.worker)
    return answer({})


@router.post("/slots/take")
async def take_slot(body: Slot, key: KeyDep, ledger: LedgerDep) -> Response:
    """Take or keep a slot of the tool."""
    _check_tools(key, body.tool)
    slot = body.tool, body.holder, body.slots, body.hold_ms
    return answer({"is_taken": await ledger.take_slot(*slot)})


@router.post("/slots/free")
async def free_slot(body: Slot, key: KeyDep, ledger: LedgerDep) -> Response:
    """Give the slot back."""
    _check_tools(key, body.tool)
    await ledger.free_slot(body.tool, body.holder)
    return answer({})


@router.post("/shapes")
async def swap_shape(body: Shape, key: KeyDep, ledger: LedgerDep) -> Response:
    """Note the shape of a tool's output; answers with that of its last one."""
    _check_tools(key, body.tool)
    return answer({"before": await ledger.swap_shape(body.tool, body.shape)})


@router.get(CALL)
async def find_call(seen: SeenDep) -> Response:
    """The call as it is, without its arguments."""
    return answer({"call": _shown(seen.call), "now_ms": seen.now_ms})


@router.post(CALL + "/lease")
async def renew(ref: RefDep, body: Lease, seen: SeenDep, ledger: LedgerDep) -> Response:
    """Keep the lease."""
    held = seen.call.but(generation=body.generation)
    return answer({"is_kept": await ledger.renew(ref, held, body.lease_ms, body.cap_ms)})


@router.post(CALL + "/{verb}")
async def change(
    request: Request, verb: str, ref: RefDep, seen: SeenDep, ledger: LedgerDep
) -> Response:
    """Claim the call, or say how it goes and ends."""
    command = _command(verb, seen.call.id, await request.json())
    call = await ledger.change(ref, command)
    shown = call.model_dump(mode="json") if isinstance(command, ClaimCall) else _shown(call)
    return answer({"call": shown})


def _command(verb: str, call_id: str, fields: Any) -> CallCommand:
    if verb not in VERBS or not isinstance(fields, dict):
        raise HTTPException(404)
    try:
        return TypeAdapter(VERBS[verb]).validate_python({**fields, "call_id": call_id})
    except ValidationError as error:
        raise InvalidValue(f"No {verb} of a call: {error.errors()[0]['msg']}.") from error


def _shown(call: ToolCall) -> dict[str, Any]:
    return call.but(arguments="").model_dump(mode="json")


def _check_tools(key: WorkerKey, *tools: str) -> None:
    if foreign := [tool for tool in tools if not key.serves(tool)]:
        raise HTTPException(403, f"This key does not serve {', '.join(foreign)}.")


async def _check_name(store: StoreDep, key: WorkerKey, worker: str) -> None:
    """Nobody speaks for the workers of others."""
    there = (one for one in await store.present("worker") if one.id == worker)
    if any(one.info.get("key") != _mark(key) for one in there):
        raise HTTPException(403, f"The worker {worker} is not of this key.")


def _mark(key: WorkerKey) -> str:
    return hashlib.sha256(key.secret.get_secret_value().encode()).hexdigest()[:12]
