"""The ledger of tool calls: who answers, who may claim, which result counts.

A claim raises the generation of its call; a result counts only under the generation that is
current. So it does not matter how often a job is delivered or how late its worker wakes up.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Final

from orchestrator.commands import (
    CallProgress,
    CallResult,
    ClaimCall,
    ProposedCall,
    ResolveCall,
    RetryCall,
    SubmitOutputs,
)
from orchestrator.decide.draft import Draft
from orchestrator.decisions import (
    ClearTimer,
    EventType,
    KeepOutput,
    QueueTurn,
    RetireLog,
    SendCall,
    StopCall,
    TimerKey,
    TimerKind,
)
from orchestrator.errors import CallNotOpen, NotAcceptingOutputs, NotFound, OutputsMismatch
from orchestrator.projection import public_status
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

TIMERS: Final = {
    CallState.AWAITING_APPROVAL: TimerKind.CALL_APPROVAL,
    CallState.DISPATCHED: TimerKind.CALL_WAIT,
    CallState.STARTED: TimerKind.CALL_LEASE,
    CallState.RETRYING: TimerKind.CALL_RETRY,
}
"""The timer that looks after a call in each state in which it waits for anybody but the client."""

MAX_LATE_RESULTS: Final = 5
"""Late results kept per call: enough to see what happened, bounded whatever a worker does."""

LOOK_AFTER_MS: Final = 15_000
"""A call that no worker has claimed for so long is looked after."""


def error_text(kind: str, message: str, *, is_retryable: bool = False) -> str:
    """An error as models read it: ``{"error": {"type": …, "message": …, "retryable": false}}``."""
    error = {"type": kind, "message": message, "retryable": is_retryable}
    return json.dumps({"error": error}, ensure_ascii=False)


def error_words(text: str) -> str:
    """The message of such an error, for people; any other text as it is."""
    try:
        return str(json.loads(text)["error"]["message"])
    except (ValueError, LookupError, TypeError):
        return text


def open_round(
    draft: Draft, step_id: str, asked: Sequence[ProposedCall], tools: Mapping[str, ToolSpec]
) -> None:
    """Enter the calls of one turn into the ledger and hand each one to whoever answers it.

    A name that the run does not declare is refused, one that workers have published goes to them,
    any other is the client's. If the client answers all, what workers have published is nothing to
    it: neither their queues nor their schemas.
    """
    is_clients = draft.spec.executor == "client"
    for index, proposed in enumerate(asked):
        call = ToolCall(
            id=proposed.call_id,
            provider_id=proposed.provider_id,
            step_id=step_id,
            index=index,
            name=proposed.name,
            arguments=proposed.arguments,
            asked_arguments=proposed.asked_arguments,
            executor=Executor.CLIENT,
            state=CallState.REQUIRED,
            created_ms=draft.now_ms,
        )
        refusal = None if is_clients else proposed.refusal
        refusal = refusal or _undeclared(draft, proposed.name)
        tool = None if is_clients else tools.get(proposed.name)
        if refusal is not None:
            call = call.but(executor=Executor.REFUSED)
            settle(draft, call, CallState.FAILED, refusal, error=error_words(refusal))
        elif tool is not None and tool.approval == "required":
            _await_approval(draft, _for_worker(call, tool), tool.approval_timeout_s)
        elif tool is not None:
            dispatch(draft, _for_worker(call, tool))
        else:
            draft.put_call(call, EventType.CALL_REQUIRED)


def claim_call(draft: Draft, command: ClaimCall) -> None:
    """Give a dispatched call to this worker, with a time limit and a lease.

    An execution that has it already, and asks again since it was not told, has it.
    """
    call = find_call(draft, command.call_id)
    if call.state is CallState.STARTED and command.nonce and command.nonce == call.nonce:
        return
    if call.state is not CallState.DISPATCHED:
        raise CallNotOpen(call.id, call.state)
    clear_timer(draft, call)
    timeout_ms = round(call.timeout_s * 1000)
    call = call.but(
        state=CallState.STARTED,
        generation=call.generation + 1,
        nonce=command.nonce,
        attempts=call.attempts + 1,
        worker=command.worker,
        started_ms=draft.now_ms,
        deadline_ms=min(draft.now_ms + timeout_ms, draft.run.deadline_ms),
    )
    draft.put_call(call, EventType.CALL_STARTED)
    draft.set_timer(timer(TimerKind.CALL_LEASE, call), draft.now_ms + command.lease_ms)


def call_result(draft: Draft, command: CallResult) -> None:
    """Apply a worker's answer, or keep it as late when the call is no longer his."""
    call = find_call(draft, command.call_id)
    if not is_held(call, command.generation):
        record_late(draft, call, command)
        return
    if command.full is not None:
        draft.ask(KeepOutput(call.id, command.full))
    call = call.but(
        answered=call.generation, has_full_output=command.full is not None, drift=command.drift
    )
    settle(draft, call, CallState(command.outcome), command.text, error=command.error)
    finish_round(draft)


def call_progress(draft: Draft, command: CallProgress) -> None:
    """Tell what the tool says of itself."""
    call = held_call(draft, command.call_id, command.generation)
    draft.put_call(call.but(progress=command.text), EventType.CALL_PROGRESS, detail=command.text)


def submit_outputs(draft: Draft, command: SubmitOutputs) -> None:
    """Apply the client's answers: all that are waited for, each once, or none."""
    run, waiting = draft.run, draft.aggregate.client_calls()
    if not waiting:
        raise NotAcceptingOutputs(run.id, public_status(run, draft.aggregate.calls))
    expected = [call.id for call in waiting]
    got = [call_id for call_id, _ in command.outputs]
    if sorted(got) != sorted(expected):
        raise OutputsMismatch(run.id, expected, got)
    texts = dict(command.outputs)
    for call in waiting:
        settle(draft, call, CallState.SUCCEEDED, texts[call.id])
    _ask_for_approvals(draft)
    finish_round(draft)


def resolve_call(draft: Draft, command: ResolveCall) -> None:
    """Apply an operator's answer to a call that has none yet, and stop whoever is at it."""
    call = find_call(draft, command.call_id)
    if call.is_settled:
        raise CallNotOpen(call.id, call.state)
    stop(draft, call)
    if command.arguments is not None:
        asked = call.asked_arguments or call.arguments
        call = call.but(arguments=command.arguments, asked_arguments=asked)
    error = None if command.state is CallState.SUCCEEDED else "An operator ended this call."
    settle(draft, call, command.state, command.text, error=error)
    if call.executor is Executor.CLIENT and not draft.aggregate.client_calls():
        _ask_for_approvals(draft)
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
        settle(draft, call, state, error_text(kind, message), error=message)


def stop(draft: Draft, call: ToolCall) -> None:
    """Take the call off its queue, or off its worker."""
    if call.queue and call.state in {CallState.DISPATCHED, CallState.STARTED}:
        draft.ask(StopCall(call.id, call.queue, call.worker))


def find_call(draft: Draft, call_id: str) -> ToolCall:
    """The call. Raises ``NotFound``."""
    call = draft.aggregate.call(call_id)
    if call is None:
        raise NotFound("tool call", call_id)
    return call


def held_call(draft: Draft, call_id: str, generation: int) -> ToolCall:
    """The call, if it is still executed under this generation. Raises ``CallNotOpen``."""
    call = find_call(draft, call_id)
    if not is_held(call, generation):
        raise CallNotOpen(call.id, call.state)
    return call


def is_held(call: ToolCall, generation: int) -> bool:
    """Whether the call is executed under this generation."""
    return call.state is CallState.STARTED and call.generation == generation


def clear_timer(draft: Draft, call: ToolCall) -> None:
    """Clear the timer that the call has in its state, if any."""
    if kind := TIMERS.get(call.state):
        draft.ask(ClearTimer(timer(kind, call)))


def timer(kind: TimerKind, call: ToolCall) -> TimerKey:
    """A timer of the call, under its present generation."""
    return TimerKey(kind, call.generation, call.id)


def dispatch(draft: Draft, call: ToolCall) -> None:
    """Send the call to its workers."""
    call = call.but(
        state=CallState.DISPATCHED,
        worker=None,
        dispatched_ms=draft.now_ms,
        started_ms=None,
        deadline_ms=None,
        progress=None,
    )
    draft.put_call(call, EventType.CALL_DISPATCHED)
    draft.set_timer(timer(TimerKind.CALL_WAIT, call), draft.now_ms + LOOK_AFTER_MS)
    draft.ask(SendCall(call.id, call.queue or "", draft.run.deadline_ms))


def settle(
    draft: Draft, call: ToolCall, state: CallState, text: str, error: str | None = None
) -> None:
    """Answer the call: its output goes to the transcript at once."""
    clear_timer(draft, call)
    edited = call.arguments if call.asked_arguments is not None else None
    output = Output(seq=0, run_id=draft.run.id, call_id=call.id, text=text, arguments=edited)
    seq = draft.append(output)
    settled = call.but(state=state, finished_ms=draft.now_ms, output_seq=seq, error=error)
    draft.put_call(settled, EventType.CALL_SETTLED)


def record_late(draft: Draft, call: ToolCall, command: CallResult | RetryCall) -> None:
    """Keep a result that came too late; it changes nothing else. One that is known is not late:
    whoever brought it was not told, and brings it again.
    """
    if len(call.late) >= MAX_LATE_RESULTS or _is_known(call, command):
        return
    late = LateResult(at_ms=draft.now_ms, generation=command.generation, text=command.text)
    draft.put_call(call.but(late=(*call.late, late)), EventType.CALL_LATE)
    if draft.run.is_final:
        draft.ask(RetireLog())


def _is_known(call: ToolCall, command: CallResult | RetryCall) -> bool:
    if any((x.generation, x.text) == (command.generation, command.text) for x in call.late):
        return True
    is_repeatable = isinstance(command, RetryCall) or call.state is CallState(command.outcome)
    return call.answered == command.generation and is_repeatable


def _await_approval(draft: Draft, call: ToolCall, timeout_s: float) -> None:
    approve_by_ms = min(draft.now_ms + round(timeout_s * 1000), draft.run.deadline_ms)
    call = call.but(state=CallState.AWAITING_APPROVAL, approve_by_ms=approve_by_ms)
    draft.put_call(call, EventType.CALL_AWAITING_APPROVAL)
    draft.set_timer(timer(TimerKind.CALL_APPROVAL, call), approve_by_ms)


def _ask_for_approvals(draft: Draft) -> None:
    """Show clients the approvals that have waited behind their own calls."""
    if draft.aggregate.calls_to_approve():
        draft.tell_run(EventType.RUN_REQUIRES_ACTION)


def _undeclared(draft: Draft, name: str) -> str | None:
    declared = draft.spec.function_names()
    if name in declared:
        return None
    text = f"There is no tool named {name[:80]!r}. Call one of these by its exact name, several at"
    text += f" once if they do not depend on each other: {', '.join(declared) or 'none'}."
    return error_text("unknown_tool", text)


def _for_worker(call: ToolCall, tool: ToolSpec) -> ToolCall:
    return call.but(
        executor=Executor.WORKER,
        queue=tool.queue,
        timeout_s=tool.timeout_s,
        side_effects=tool.side_effects,
        max_attempts=tool.max_attempts,
        on_unknown=tool.on_unknown,
    )
