"""Runs: create, read, change, cancel, and the outputs that a run waits for."""

from typing import Any, Final

from fastapi import APIRouter, Response

from api.answers import answer
from api.bodies import StrictRoute
from api.connection import SettingsDep, StoreDep
from api.lists import ListObject, PagingQuery, list_object
from api.messages import new_messages
from api.requests import (
    MAX_OUTPUT_BYTES,
    CreateRun,
    CreateThread,
    CreateThreadAndRun,
    ModifyMetadata,
    RunFields,
    SubmitToolOutputs,
)
from api.shapes import RunObject, run_object
from api.threads import new_thread
from orchestrator import commands
from orchestrator.errors import InvalidValue, OversizedValue
from orchestrator.ids import mint
from orchestrator.records import Aggregate, Assistant, RunSpec
from orchestrator.settings import Settings
from orchestrator.shell import change_run, change_thread, create_thread, is_overdue, view_run
from orchestrator.store import RunRef, RunView, Store

POLL_AFTER: Final = {"openai-poll-after-ms": "100"}
"""Ten reads a second of 0.25 ms of CPU each: one core serves four hundred waiting clients. Some
clients read this once and keep to it, so it must suit the shortest runs.
"""

_INHERITED: Final = set(RunSpec.model_fields) & set(Assistant.model_fields)

router = APIRouter(prefix="/threads", tags=["runs"], route_class=StrictRoute)


@router.post("/runs", response_model=RunObject)
async def create_thread_and_run(
    body: CreateThreadAndRun, store: StoreDep, settings: SettingsDep
) -> Response:
    """Create a thread and run it."""
    thread = body.thread or CreateThread()
    command = await _creation(store, settings, body, messages=thread.messages)
    return _shown(await create_thread(store, new_thread(thread), command))


@router.post("/{thread_id}/runs", response_model=RunObject)
async def create_run(
    thread_id: str, body: CreateRun, store: StoreDep, settings: SettingsDep
) -> Response:
    """Run a thread. Refused while another run of it is active; then nothing is added to it."""
    command = await _creation(
        store, settings, body, body.additional_messages, body.additional_instructions
    )
    return _shown(await change_thread(store, thread_id, command))


@router.get("/{thread_id}/runs", response_model=ListObject[RunObject])
async def list_runs(thread_id: str, paging: PagingQuery, store: StoreDep) -> Response:
    """List the runs of a thread, newest first."""
    await store.load(thread_id)  # an unknown thread has no list, not an empty one
    page = await store.list_runs(thread_id, paging.query())
    shown = [_object(await on_time(store, view)) for view in page.items]
    return answer(list_object(shown, has_more=page.has_more))


@router.get("/{thread_id}/runs/{run_id}", response_model=RunObject)
async def get_run(thread_id: str, run_id: str, store: StoreDep) -> Response:
    """Get a run."""
    view = await view_run(store, RunRef(thread_id, run_id))
    return answer(_object(view), headers=POLL_AFTER)


@router.post("/{thread_id}/runs/{run_id}", response_model=RunObject)
async def modify_run(
    thread_id: str, run_id: str, body: ModifyMetadata, store: StoreDep
) -> Response:
    """Replace the metadata, in every status."""
    ref = RunRef(thread_id, run_id)
    if "metadata" not in body.model_fields_set:
        return answer(_object(await view_run(store, ref)))
    return _shown(await change_run(store, ref, commands.ModifyRun(body.metadata or {})))


@router.post("/{thread_id}/runs/{run_id}/cancel", response_model=RunObject)
async def cancel_run(
    thread_id: str, run_id: str, store: StoreDep, settings: SettingsDep
) -> Response:
    """Ask a run to stop. What was committed before it stops stays."""
    command = commands.Cancel(watchdog_ms=round(settings.cancel_watchdog_s * 1000))
    return _shown(await change_run(store, RunRef(thread_id, run_id), command))


@router.post("/{thread_id}/runs/{run_id}/submit_tool_outputs", response_model=RunObject)
async def submit_tool_outputs(
    thread_id: str, run_id: str, body: SubmitToolOutputs, store: StoreDep
) -> Response:
    """Answer all calls that the run waits for, in one request, in any order."""
    _refuse_streaming(body.stream)
    for index, given in enumerate(body.tool_outputs):
        size_bytes = len(given.output.encode())
        if size_bytes > MAX_OUTPUT_BYTES:
            raise OversizedValue(f"tool_outputs[{index}].output", MAX_OUTPUT_BYTES, size_bytes)
    outputs = tuple((given.tool_call_id, given.output) for given in body.tool_outputs)
    command = commands.SubmitOutputs(outputs)
    return _shown(await change_run(store, RunRef(thread_id, run_id), command))


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
    _refuse_streaming(body.stream)
    assistant = await store.get_assistant(body.assistant_id)
    spec = _spec(assistant, body, additional_instructions, settings.max_turns)
    _refuse_foreign_tools(spec)
    return commands.CreateRun(
        run_id=mint("run"),
        spec=spec,
        ttl_ms=round(settings.run_ttl_s * 1000),
        metadata=body.metadata or {},
        additional_messages=new_messages(messages),
    )


def _spec(
    assistant: Assistant, body: RunFields, additional_instructions: str | None, max_turns: int
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
    return RunSpec.model_validate(fields | {"max_turns": max_turns})


def _refuse_foreign_tools(spec: RunSpec) -> None:
    foreign = sorted({tool["type"] for tool in spec.tools} - {"function"})
    if foreign:
        raise InvalidValue(
            f"This server runs function tools only; the run also has {', '.join(foreign)}."
            " Give the run 'tools' without them.",
            "tools",
            "unsupported_tool",
        )


def _refuse_streaming(stream: bool | None) -> None:
    if stream:
        text = "Streaming is not available yet. Create the run without 'stream' and poll it."
        raise InvalidValue(text, "stream", "unsupported_value")


def _object(view: RunView) -> RunObject:
    return run_object(view.run, view.spec, view.calls)


def _shown(committed: Aggregate) -> Response:
    assert committed.run is not None and committed.spec is not None  # noqa: S101, PT018
    return answer(run_object(committed.run, committed.spec, committed.calls))
