"""The ledger of a run's tool calls, and what an operator may do with one of them (an extension)."""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any, Final

from fastapi import APIRouter, Depends, Response
from pydantic import Field
from pydantic_core import to_json

from api.answers import answer
from api.attempts import AttemptDep
from api.bodies import StrictRoute
from api.lists import ListObject, PagingQuery, list_object, page_of
from api.ownership import StoreDep
from orchestrator import arguments
from orchestrator.commands import AnswerApprovals, Approval, Command, RequeueCall, ResolveCall
from orchestrator.decide.calls import error_text
from orchestrator.errors import InvalidValue, NotFound
from orchestrator.fields import Body
from orchestrator.receipts import Attempt
from orchestrator.records import CallState, Json, ToolCall
from orchestrator.repetition import AlreadyDone
from orchestrator.shell import change_run, view_run
from orchestrator.store import RunRef, RunView, Store

ONCE_WARNING: Final = (
    "This tool's side effects are declared as 'once': if an earlier attempt took effect, it will"
    " now have been done twice."
)
_NOT_SHOWN: Final = {"output_seq", "nonce", "answered"}

router = APIRouter(
    prefix="/threads/{thread_id}/runs/{run_id}/tool_calls",
    tags=["tool calls"],
    route_class=StrictRoute,
)


@dataclass(frozen=True, slots=True)
class Target:
    """The call that an operator means, and which try of his request this is."""

    store: Store
    ref: RunRef
    call_id: str
    attempt: Attempt | None


async def _target_of(
    thread_id: str, run_id: str, call_id: str, store: StoreDep, attempt: AttemptDep
) -> Target:
    return Target(store, RunRef(thread_id, run_id), call_id, attempt)


TargetDep = Annotated[Target, Depends(_target_of)]


class FailCall(Body):
    """POST …/fail: what the model is told."""

    message: Annotated[str, Field(min_length=1)]


class ResolveWith(Body):
    """POST …/resolve: the output in the tool's place, and the arguments that it belongs to, if they
    are not the model's.
    """

    output: str
    arguments: Json | None = None


class ApproveCall(Body):
    """POST …/approve: the tool is given these arguments instead of the model's."""

    arguments: Json | None = None


class RejectCall(Body):
    """POST …/reject: what the model is told."""

    reason: str | None = None


@router.get("", response_model=ListObject[Json])
async def list_tool_calls(
    thread_id: str, run_id: str, paging: PagingQuery, store: StoreDep
) -> Response:
    """List the tool calls of a run as the ledger has them, newest first."""
    view = await view_run(store, RunRef(thread_id, run_id))
    page = page_of(view.calls, paging.query())
    seqs = _output_seqs(page.items)
    outputs = await store.read_outputs(thread_id, seqs) if seqs else {}
    shown = [_object(thread_id, run_id, call, outputs.get(call.id)) for call in page.items]
    return answer(list_object(shown, has_more=page.has_more))


@router.get("/{call_id}", response_model=Json)
async def get_tool_call(thread_id: str, run_id: str, call_id: str, store: StoreDep) -> Response:
    """Get a tool call, with the whole output where the model was shown a part of it."""
    return answer(await _shown(store, RunRef(thread_id, run_id), call_id))


@router.post("/{call_id}/cancel", response_model=Json)
async def cancel_tool_call(target: TargetDep) -> Response:
    """Stop a call; the model is told, and the run goes on."""
    text = error_text("cancelled", "An operator has cancelled this call.")
    return await _changed(target, ResolveCall(target.call_id, text, CallState.CANCELLED))


@router.post("/{call_id}/fail", response_model=Json)
async def fail_tool_call(target: TargetDep, body: FailCall) -> Response:
    """Stop a call and tell the model that it failed, in these words."""
    text = error_text("failed", body.message)
    return await _changed(target, ResolveCall(target.call_id, text, CallState.FAILED))


@router.post("/{call_id}/resolve", response_model=Json)
async def resolve_tool_call(target: TargetDep, body: ResolveWith) -> Response:
    """Answer a call in the tool's place, as called by the model or with other arguments."""
    arguments = None if body.arguments is None else to_json(body.arguments).decode()
    return await _changed(target, ResolveCall(target.call_id, body.output, arguments=arguments))


@router.post("/{call_id}/approve", response_model=Json)
async def approve_tool_call(target: TargetDep, body: ApproveCall | None = None) -> Response:
    """Let a call that waits for it go to its workers, with other arguments if some are given."""
    edited = await _edited(target, body.arguments if body else None)
    return await _answered(target, Approval(target.call_id, is_approved=True, arguments=edited))


@router.post("/{call_id}/reject", response_model=Json)
async def reject_tool_call(target: TargetDep, body: RejectCall | None = None) -> Response:
    """Do not let a call start; the model is told why, and the run goes on."""
    reason = body.reason if body else None
    return await _answered(target, Approval(target.call_id, is_approved=False, reason=reason))


@router.post("/{call_id}/requeue", response_model=Json)
async def requeue_tool_call(target: TargetDep) -> Response:
    """Send an open call to the workers again, whatever its side effects."""
    return await _changed(target, RequeueCall(target.call_id))


async def _edited(target: Target, given: Json | None) -> str | None:
    """The arguments as JSON, once they fit what the tool's workers publish."""
    if given is None:
        return None
    text = to_json(given).decode()
    name = _find(await view_run(target.store, target.ref), target.call_id).name
    tool = (await target.store.tools([name])).get(name)
    if tool and (complaint := arguments.complaint(text, tool.parameters)):
        raise InvalidValue(complaint, "arguments")
    return text


async def _answered(target: Target, approval: Approval) -> Response:
    return answer(await _carried_out(target, AnswerApprovals((approval,))))


async def _changed(target: Target, command: ResolveCall | RequeueCall) -> Response:
    shown = await _carried_out(target, command)
    is_risky = isinstance(command, RequeueCall) and shown["side_effects"] == "once"
    return answer(shown | ({"warning": ONCE_WARNING} if is_risky else {}))


async def _carried_out(target: Target, command: Command) -> dict[str, Any]:
    """The call after the command, or as it is now if an earlier try has had its effect."""
    with suppress(AlreadyDone):
        await change_run(target.store, target.ref, command, target.attempt)
    return await _shown(target.store, target.ref, target.call_id)


async def _shown(store: Store, ref: RunRef, call_id: str) -> dict[str, Any]:
    view = await view_run(store, ref)
    call = _find(view, call_id)
    seqs = _output_seqs([call])
    outputs = await store.read_outputs(ref.thread_id, seqs) if seqs else {}
    shown = _object(ref.thread_id, ref.run_id, call, outputs.get(call_id))
    if call.has_full_output:
        shown["full_output"] = await store.read_full_output(ref, call_id)
    return shown


def _output_seqs(calls: Iterable[ToolCall]) -> list[int]:
    """Where the outputs are, those included that say that the run ended first."""
    return [call.output_seq for call in calls if call.output_seq is not None]


def _find(view: RunView, call_id: str) -> ToolCall:
    call = next((call for call in view.calls if call.id == call_id), None)
    if call is None:
        raise NotFound("tool call", call_id)
    return call


def _object(thread_id: str, run_id: str, call: ToolCall, output: str | None) -> dict[str, Any]:
    """Everything that the ledger knows; ``output`` is what the model was shown."""
    return {
        "object": "thread.run.tool_call",
        "thread_id": thread_id,
        "run_id": run_id,
        **call.model_dump(mode="json", exclude=_NOT_SHOWN),
        "output": output,
    }
