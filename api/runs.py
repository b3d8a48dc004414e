"""Runs: create, read, change, cancel, and the outputs that a run waits for."""

from collections.abc import Awaitable
from dataclasses import replace
from typing import Any, Final, get_args

from fastapi import APIRouter, Request, Response

from api.answers import answer
from api.attempts import AttemptDep, NamedAttemptDep
from api.bodies import StrictRoute
from api.connection import SettingsDep
from api.doorbell import DoorbellDep
from api.holding import held_view, hold_of
from api.lists import ListObject, PagingQuery, list_object
from api.messages import new_messages
from api.ownership import StoreDep
from api.requests import (
    MAX_OUTPUT_BYTES,
    CreateRun,
    CreateThread,
    CreateThreadAndRun,
    ModifyMetadata,
    RunFields,
    SubmitToolAnswers,
    SubmitToolApprovals,
    SubmitToolOutputs,
)
from api.shapes import RunObject, run_object, thread_object
from api.streaming.frames import frame
from api.streaming.routes import MAY_STREAM, ReadersDep, stream_from_start, stream_on
from api.threads import new_thread
from orchestrator import commands
from orchestrator.errors import InvalidValue, OversizedValue
from orchestrator.ids import mint
from orchestrator.llm.routes import missing_tools
from orchestrator.records import Aggregate, Assistant, RunSpec
from orchestrator.repetition import AlreadyDone
from orchestrator.server_tools import ServerToolType
from orchestrator.settings import Settings
from orchestrator.shell import (
    change_run,
    change_thread,
    create_thread,
    expire,
    is_overdue,
    view_run,
)
from orchestrator.store import RunRef, RunView, Store

POLL_AFTER: Final = {"openai-poll-after-ms": "100"}
"""Ten reads a second of 0.25 ms of CPU each: one core serves four hundred waiting clients. Some
clients read this once and keep to it, so it must suit the shortest runs.
"""

PINNED_TOOLS: Final = "runstate_pin_tools"
"""Metadata of an assistant or a run: tools, with commas between, whose outputs are kept."""

_INHERITED: Final = set(RunSpec.model_fields) & set(Assistant.model_fields)

router = APIRouter(prefix="/threads", tags=["runs"], route_class=StrictRoute)


@router.post("/runs", response_model=RunObject, responses=MAY_STREAM)
async def create_thread_and_run(
    body: CreateThreadAndRun,
    store: StoreDep,
    settings: SettingsDep,
    readers: ReadersDep,
    attempt: AttemptDep,
) -> Response:
    """Create a thread and run it."""
    thread = body.thread or CreateThread()
    command = await _creation(store, settings, body, messages=thread.messages)
    change = create_thread(store, new_thread(thread), command, attempt)
    made = await run_after(store, change, command.run_id)
    if body.stream:
        return stream_from_start(
            readers, store, made, frame("thread.created", thread_object(made.thread))
        )
    return answer_run(made)


@router.post("/{thread_id}/runs", response_model=RunObject, responses=MAY_STREAM)
async def create_run(  # noqa: PLR0913, PLR0917
    thread_id: str,
    body: CreateRun,
    store: StoreDep,
    settings: SettingsDep,
    readers: ReadersDep,
    attempt: AttemptDep,
) -> Response:
    """Run a thread. While another run of it is active, ``if_busy`` says what to do; by default the
    run is refused and nothing is added to the thread.
    """
    command = await _creation(
        store, settings, body, body.additional_messages, body.additional_instructions
    )
    command = replace(
        command,
        if_busy=commands.IfBusy(body.if_busy or settings.if_busy),
        watchdog_ms=round(settings.cancel_watchdog_s * 1000),
    )
    change = change_thread(store, thread_id, command, attempt)
    made = await run_after(store, change, command.run_id)
    return stream_from_start(readers, store, made) if body.stream else answer_run(made)


@router.get("/{thread_id}/runs", response_model=ListObject[RunObject])
async def list_runs(thread_id: str, paging: PagingQuery, store: StoreDep) -> Response:
    """List the runs of a thread, newest first."""
    await store.load(thread_id)  # an unknown thread has no list, not an empty one
    page = await store.list_runs(thread_id, paging.query())
    shown = [_object(await on_time(store, view)) for view in page.items]
    return answer(list_object(shown, has_more=page.has_more))


@router.get("/{thread_id}/runs/{run_id}", response_model=RunObject)
async def get_run(
    thread_id: str, run_id: str, request: Request, store: StoreDep, doorbell: DoorbellDep
) -> Response:
    """Get a run. With ``Prefer: wait=N``, as soon as its status changes or after N seconds."""
    ref, hold = RunRef(thread_id, run_id), hold_of(request.headers)
    if hold is None:
        return answer(_object(await view_run(store, ref)), headers=POLL_AFTER)
    view = await held_view(store, ref, doorbell, request, hold.timeout_s)
    return answer(_object(view), headers=hold.headers)


@router.post("/{thread_id}/runs/{run_id}", response_model=RunObject)
async def modify_run(
    thread_id: str, run_id: str, body: ModifyMetadata, store: StoreDep, attempt: NamedAttemptDep
) -> Response:
    """Replace the metadata, in every status."""
    ref = RunRef(thread_id, run_id)
    if "metadata" not in body.model_fields_set:
        return answer(_object(await view_run(store, ref)))
    change = change_run(store, ref, commands.ModifyRun(body.metadata or {}), attempt)
    return answer_run(await run_after(store, change, run_id))


@router.post("/{thread_id}/runs/{run_id}/cancel", response_model=RunObject)
async def cancel_run(
    thread_id: str, run_id: str, store: StoreDep, settings: SettingsDep, attempt: AttemptDep
) -> Response:
    """Ask a run to stop. What was committed before it stops stays."""
    command = commands.Cancel(watchdog_ms=round(settings.cancel_watchdog_s * 1000))
    change = change_run(store, RunRef(thread_id, run_id), command, attempt)
    return answer_run(await run_after(store, change, run_id))


@router.post(
    "/{thread_id}/runs/{run_id}/submit_tool_outputs",
    response_model=RunObject,
    responses=MAY_STREAM,
)
async def submit_tool_outputs(  # noqa: PLR0913, PLR0917
    thread_id: str,
    run_id: str,
    body: SubmitToolAnswers,
    store: StoreDep,
    readers: ReadersDep,
    attempt: AttemptDep,
) -> Response:
    """Answer all calls that the run waits for, in one request, in any order; or approve or reject
    calls (``tool_approvals``).
    """
    if isinstance(body, SubmitToolApprovals):
        command, call_ids = _approvals(body)
    else:
        command, call_ids = _outputs(body)
    change = change_run(store, RunRef(thread_id, run_id), command, attempt)
    changed = await run_after(store, change, run_id)
    if body.stream:
        return await stream_on(readers, store, changed, call_ids)
    return answer_run(changed)


def _outputs(body: SubmitToolOutputs) -> tuple[commands.Command, frozenset[str]]:
    for index, given in enumerate(body.tool_outputs):
        size_bytes = len(given.output.encode())
        if size_bytes > MAX_OUTPUT_BYTES:
            raise OversizedValue(f"tool_outputs[{index}].output", MAX_OUTPUT_BYTES, size_bytes)
    outputs = tuple((given.tool_call_id, given.output) for given in body.tool_outputs)
    return commands.SubmitOutputs(outputs), frozenset(dict(outputs))


def _approvals(body: SubmitToolApprovals) -> tuple[commands.Command, frozenset[str]]:
    approvals = tuple(
        commands.Approval(given.tool_call_id, given.approve) for given in body.tool_approvals
    )
    return commands.AnswerApprovals(approvals), frozenset(one.call_id for one in approvals)


async def run_after(store: Store, change: Awaitable[Aggregate], run_id: str) -> Aggregate:
    """The run after the change; as it is now, if an earlier try of the request has made the change
    or if the run waits for the one that is active.
    """
    try:
        changed = await change
    except AlreadyDone as done:
        return await expire(store, RunRef(done.thread_id, done.made))
    if changed.run is None or changed.run.id != run_id:
        return (await store.load(changed.thread.id, run_id)).aggregate
    return changed


async def on_time(store: Store, view: RunView) -> RunView:
    """The same view, or a new one if the run should have expired by now."""
    if not is_overdue(view):
        return view
    return await view_run(store, RunRef(view.run.thread_id, view.run.id))


async def _creation(
    store: Store,
    settings: Settings,
    body: RunFields,
    messages: list[Any] | None,
    additional_instructions: str | None = None,
) -> commands.CreateRun:
    """The command that creates the run. Raises ``NotFound`` for the assistant."""
    assistant = await store.get_assistant(body.assistant_id)
    spec = _spec(assistant, body, additional_instructions, settings)
    refuse_foreign_tools(spec, settings)
    return commands.CreateRun(
        run_id=mint("run"),
        spec=spec,
        ttl_ms=round(settings.run_ttl_s * 1000),
        metadata=body.metadata or {},
        additional_messages=new_messages(messages),
    )


def _spec(
    assistant: Assistant, body: RunFields, additional_instructions: str | None, settings: Settings
) -> RunSpec:
    """The assistant's defaults, with what the run was given in their place."""
    fields = assistant.model_dump(include=_INHERITED)
    fields |= {
        name: value
        for name, value in body.given().items()
        if value is not None and name in RunSpec.model_fields
    }
    texts = (fields["instructions"], additional_instructions)
    fields["instructions"] = "\n".join(text for text in texts if text)
    fields["pinned_tools"] = _pinned(assistant.metadata) + _pinned(body.metadata)
    return RunSpec.model_validate(fields | settings.limits_of_runs(fields["model"]))


def _pinned(metadata: dict[str, str] | None) -> tuple[str, ...]:
    names = (metadata or {}).get(PINNED_TOOLS, "").split(",")
    return tuple(name.strip() for name in names if name.strip())


def refuse_foreign_tools(spec: RunSpec, settings: Settings) -> None:
    """Raises ``InvalidValue`` if there are tools that only other servers or models have."""
    if missing := missing_tools(settings, spec):
        raise InvalidValue(missing, "tools", "unsupported_tool")
    ours = {"function", *get_args(ServerToolType)}
    foreign = sorted({tool["type"] for tool in spec.tools} - ours)
    if foreign:
        raise InvalidValue(
            f"This server runs function tools only; the run also has {', '.join(foreign)}."
            " Give the run 'tools' without them.",
            "tools",
            "unsupported_tool",
        )


def _object(view: RunView) -> RunObject:
    return run_object(view.run, view.spec, view.calls)


def answer_run(committed: Aggregate) -> Response:
    """The run as a response."""
    assert committed.run is not None and committed.spec is not None  # noqa: S101, PT018
    return answer(run_object(committed.run, committed.spec, committed.calls))
