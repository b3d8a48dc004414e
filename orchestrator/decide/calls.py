"""The ledger of tool calls: who answers, who may claim, which result counts.

A claim raises the generation of its call; a result counts only under the generation that is
current. So it does not matter how often a job is delivered or how late its worker wakes up.
"""

import json
from collections.abc import Mapping, Sequence

from orchestrator.commands import (
    CallLost,
    CallResult,
    ClaimCall,
    ProposedCall,
    ResolveCall,
    SubmitOutputs,
)
from orchestrator.decide.draft import Draft
from orchestrator.decisions import (
    ClearTimer,
    EventType,
    QueueTurn,
    SendCall,
    StopCall,
    TimerKey,
    TimerKind,
)
from orchestrator.errors import CallNotOpen, NotAcceptingOutputs, NotFound, OutputsMismatch
from orchestrator.projection import public_status, required_calls
from orchestrator.records import (
    CallState,
    Executor,
    LateResult,
    Output,
    StepStatus,
    ToolCall,
    ToolSpec,
)
from orchestrator.states import RunStatus, Trigger

MAX_LATE_RESULTS = 5
"""Late results kept per call: enough to see what happened, bounded whatever a worker does."""


def error_text(kind: str, message: str) -> str:
    """An error as models read it: ``{"error": {"type": …, "message": …, "retryable": false}}``."""
    return json.dumps(
        {"error": {"type": kind, "message": message, "retryable": False}}, ensure_ascii=False
    )


def open_round(
    draft: Draft, step_id: str, asked: Sequence[ProposedCall], tools: Mapping[str, ToolSpec]
) -> None:
    """Enter the calls of one turn into the ledger and hand each one to whoever answers it.

    A name that the run does not declare is refused, one that workers have published goes to them,
    any other is the client's.
    """
    for index, proposed in enumerate(asked):
        call = ToolCall(
            id=proposed.call_id,
            provider_id=proposed.provider_id,
            step_id=step_id,
            index=index,
            name=proposed.name,
            arguments=proposed.arguments,
            executor=Executor.CLIENT,
            state=CallState.REQUIRED,
            created_ms=draft.now_ms,
        )
        refusal = proposed.refusal or _undeclared(draft, proposed.name)
        tool = tools.get(proposed.name)
        if refusal is not None:
            call = call.but(executor=Executor.REFUSED)
            _settle(draft, call, CallState.FAILED, refusal, error=refusal)
        elif tool is not None:
            _dispatch(draft, _for_worker(call, tool))
        else:
            draft.put_call(call, EventType.CALL_REQUIRED)


def claim_call(draft: Draft, command: ClaimCall) -> None:
    """Give a dispatched call to this worker, with a time limit and a lease."""
    call = _call(draft, command.call_id)
    if call.state is not CallState.DISPATCHED:
        raise CallNotOpen(call.id, call.state)
    timeout_ms = round(call.timeout_s * 1000)
    call = call.but(
        state=CallState.STARTED,
        generation=call.generation + 1,
        attempts=call.attempts + 1,
        worker=command.worker,
        started_ms=draft.now_ms,
        deadline_ms=min(draft.now_ms + timeout_ms, draft.run.deadline_ms),
    )
    draft.put_call(call, EventType.CALL_STARTED)
    draft.set_timer(_lease(call), draft.now_ms + command.lease_ms)


def call_result(draft: Draft, command: CallResult) -> None:
    """Apply a worker's answer, or keep it as late when the call is no longer his."""
    call = _call(draft, command.call_id)
    if not _is_held(call, command.generation):
        _record_late(draft, call, command)
        return
    _settle(draft, call, CallState(command.outcome), command.text, error=command.error)
    finish_round(draft)


def call_lost(draft: Draft, command: CallLost) -> None:
    """Send the call again if its author said that this is harmless; else answer in its place."""
    call = _call(draft, command.call_id)
    if not _is_held(call, command.generation):
        raise CallNotOpen(call.id, call.state)
    draft.ask(ClearTimer(_lease(call)))
    call = call.but(error=command.reason)
    if call.side_effects == "once":
        _leave_unknown(draft, call, command.reason)
    elif call.attempts < call.max_attempts:
        draft.put_call(call, EventType.CALL_LOST, detail=command.reason)
        _dispatch(draft, call)
    else:
        text = f"The tool was started {call.attempts} times and never finished: {command.reason}"
        _settle(draft, call, CallState.FAILED, error_text("lost", text), error=command.reason)
    finish_round(draft)


def submit_outputs(draft: Draft, command: SubmitOutputs) -> None:
    """Apply the client's answers: all that are waited for, each once, or none."""
    run, ledger = draft.run, draft.aggregate.calls
    waiting = required_calls(run, ledger)
    if not waiting:
        raise NotAcceptingOutputs(run.id, public_status(run, ledger))
    expected = [call.id for call in waiting]
    got = [call_id for call_id, _ in command.outputs]
    if sorted(got) != sorted(expected):
        raise OutputsMismatch(run.id, expected, got)
    texts = dict(command.outputs)
    for call in waiting:
        _settle(draft, call, CallState.SUCCEEDED, texts[call.id])
    finish_round(draft)


def resolve_call(draft: Draft, command: ResolveCall) -> None:
    """Apply an operator's answer to a call that has none yet, and stop whoever is at it."""
    call = _call(draft, command.call_id)
    if call.is_settled:
        raise CallNotOpen(call.id, call.state)
    stop(draft, call)
    _settle(draft, call, CallState.SUCCEEDED, command.text)
    finish_round(draft)


def finish_round(draft: Draft) -> None:
    """When every call has its output, close the step and queue the next turn."""
    if draft.run.status is not RunStatus.REQUIRES_ACTION or draft.aggregate.open_calls():
        return
    for step in draft.aggregate.steps:
        if step.status is StepStatus.IN_PROGRESS:
            done = step.but(status=StepStatus.COMPLETED, completed_ms=draft.now_ms)
            draft.put_step(done, EventType.STEP_COMPLETED)
    draft.move(Trigger.OUTPUTS_COMPLETE)
    draft.ask(QueueTurn())


def give_up(draft: Draft, kind: str, message: str) -> None:
    """Close every open call because the run ends: stopped, and answered in the transcript, so that
    the thread's next run finds no call without an output.
    """
    for call in draft.aggregate.open_calls():
        stop(draft, call)
        state = CallState.UNKNOWN if call.state is CallState.UNKNOWN else CallState.CANCELLED
        _settle(draft, call, state, error_text(kind, message), error=message)


def stop(draft: Draft, call: ToolCall) -> None:
    """Take the call off its queue, or off its worker."""
    if call.queue and call.state in {CallState.DISPATCHED, CallState.STARTED}:
        draft.ask(StopCall(call.id, call.queue, call.worker))


def _call(draft: Draft, call_id: str) -> ToolCall:
    call = draft.aggregate.call(call_id)
    if call is None:
        raise NotFound("tool call", call_id)
    return call


def _is_held(call: ToolCall, generation: int) -> bool:
    return call.state is CallState.STARTED and call.generation == generation


def _undeclared(draft: Draft, name: str) -> str | None:
    declared = draft.spec.function_names()
    if name in declared:
        return None
    known = ", ".join(declared) or "none"
    return error_text("unknown_tool", f"There is no tool named {name!r}. Available tools: {known}.")


def _for_worker(call: ToolCall, tool: ToolSpec) -> ToolCall:
    return call.but(
        executor=Executor.WORKER,
        queue=tool.queue,
        timeout_s=tool.timeout_s,
        side_effects=tool.side_effects,
        max_attempts=tool.max_attempts,
        on_unknown=tool.on_unknown,
    )


def _dispatch(draft: Draft, call: ToolCall) -> None:
    call = call.but(state=CallState.DISPATCHED, worker=None, started_ms=None, deadline_ms=None)
    draft.put_call(call, EventType.CALL_DISPATCHED)
    draft.ask(SendCall(call.id, call.queue or "", draft.run.deadline_ms))


def _leave_unknown(draft: Draft, call: ToolCall, reason: str) -> None:
    if call.on_unknown == "hold":
        draft.put_call(call.but(state=CallState.UNKNOWN), EventType.CALL_LOST, detail=reason)
        return
    text = (
        "The worker died while the tool ran. It may or may not have taken effect, and it was not"
        " started again, because doing it twice could do harm."
    )
    _settle(draft, call, CallState.UNKNOWN, error_text("unknown_outcome", text), error=reason)


def _settle(
    draft: Draft, call: ToolCall, state: CallState, text: str, error: str | None = None
) -> None:
    if call.state is CallState.STARTED:
        draft.ask(ClearTimer(_lease(call)))
    seq = draft.append(Output(seq=0, run_id=draft.run.id, call_id=call.id, text=text))
    settled = call.but(state=state, finished_ms=draft.now_ms, output_seq=seq, error=error)
    draft.put_call(settled, EventType.CALL_SETTLED)


def _record_late(draft: Draft, call: ToolCall, command: CallResult) -> None:
    if len(call.late) >= MAX_LATE_RESULTS:
        return
    late = LateResult(at_ms=draft.now_ms, generation=command.generation, text=command.text)
    draft.put_call(call.but(late=(*call.late, late)), EventType.CALL_LATE)


def _lease(call: ToolCall) -> TimerKey:
    return TimerKey(TimerKind.CALL_LEASE, call.generation, call.id)
