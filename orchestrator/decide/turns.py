"""What engines do: take a turn, bring the model's reply, or let go of it."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, assert_never

from orchestrator.commands import (
    ApplyGuards,
    Compact,
    OpenCalls,
    OpenMessage,
    ProposedCall,
    RequeueTurn,
    RunOut,
    StartTurn,
    Stop,
    TurnFailed,
    TurnResult,
)
from orchestrator.decide import calls, caps, charges, endings, steps
from orchestrator.decide.draft import Draft
from orchestrator.decisions import ClearTimer, EventType, KeepTurn, QueueTurn, TimerKey, TimerKind
from orchestrator.errors import StaleTurn
from orchestrator.records import (
    AskedCall,
    CallRound,
    Firing,
    GuardPoint,
    Json,
    LastError,
    Summary,
    Usage,
)
from orchestrator.states import RunStatus, Trigger
from orchestrator.turn_record import TurnRecord

_FILTERED: Final = LastError(
    code="server_error",
    message="The model's answer was stopped by its provider's content filter.",
)


def start_turn(draft: Draft, command: StartTurn) -> None:
    """Give the turn to this engine under a new generation."""
    run = draft.run
    if run.status is not RunStatus.QUEUED or draft.aggregate.thread.active_run_id != run.id:
        raise StaleTurn(run.id, run.generation, run.status)
    generation = run.generation + 1
    draft.move(
        Trigger.START_TURN,
        generation=generation,
        engine=command.engine,
        started_ms=draft.now_ms,
    )
    draft.set_timer(_lease(generation), draft.now_ms + command.lease_ms)


def apply_guards(draft: Draft, command: ApplyGuards) -> None:
    """Store what guardrails made of the transcript, before the model says anything; a message that
    they stop is answered here.
    """
    _check_fence(draft, command.generation)
    if steps.open_step(draft) is not None:
        raise StaleTurn(draft.run.id, command.generation, draft.run.status)
    for firing in command.firings:
        draft.tell_guard(firing)
    for entry in command.guarded:
        draft.append(entry)
    draft.set_thread(guarded_seq=command.until_seq)
    draft.set_run()
    if command.refusal is not None:
        draft.set_run(stopped_by=_stopped_by(command.firings))
        step = steps.begin_message(draft, command.message_id, command.step_id, draft.run.turns)
        content = ({"type": "refusal", "refusal": command.refusal},)
        _tell_refusal(draft, step.message_id, content)
        steps.end_message(draft, step, content)
        steps.complete(draft, step, None)
        endings.close(draft, Trigger.COMPLETE)


def open_message(draft: Draft, command: OpenMessage) -> None:
    """Show that the model speaks, before its words are there."""
    _check_fence(draft, command.generation)
    if steps.open_step(draft, "message_creation") is None:
        steps.begin_message(draft, command.message_id, command.step_id, draft.run.turns)


def open_calls(draft: Draft, command: OpenCalls) -> None:
    """Show that the model asks for tools, before all of it is there; behind words that are still
    open, the calls are shown with the reply.
    """
    _check_fence(draft, command.generation)
    if steps.open_step(draft) is None:
        step = steps.new_step(draft, command.step_id, "tool_calls", draft.run.turns)
        draft.put_step(step, EventType.STEP_CREATED)


def compact(draft: Draft, command: Compact) -> None:
    """Put a summary of older entries into the transcript; the turn goes on, if it may cost more."""
    _check_fence(draft, command.generation)
    run = draft.run
    is_made = command.text is not None
    if is_made or command.usage:
        charges.charge(draft, command.usage)
    draft.set_run(
        summary_usage=(command.usage or Usage()).plus(run.summary_usage),
        failed_summaries=run.failed_summaries + (not is_made),
    )
    record = command.record
    if command.text is not None:
        summary = Summary(
            seq=0, run_id=run.id, turn=run.turns, text=command.text, replaces=command.replaces
        )
        seq = draft.append(summary)
        record = record and record.with_summary_at(seq)
    _keep(draft, record)
    entries = ", ".join(f"{first}-{last}" for first, last in command.replaces)
    kind = "summary of the entries" if is_made else "no summary of the entries"
    draft.tell_run(EventType.TURN_COMPACTED, detail=f"{kind} {entries}")
    cap = caps.budget(draft.run.usage or Usage(), draft.spec)
    if cap and run.status is RunStatus.IN_PROGRESS:
        endings.fail(draft, LastError(code=cap.code, message=cap.message))


def turn_result(draft: Draft, command: TurnResult) -> None:
    """Store the reply, and go on: to the end, or to the tools that it asks for."""
    _check_fence(draft, command.generation)
    run = draft.run
    draft.ask(ClearTimer(_lease(run.generation)))
    _keep(draft, command.record)
    draft.set_run(
        turns=run.turns + 1,
        failed_attempts=run.failed_attempts + command.failed_attempts,
        token_ratio=_token_ratio(command) or run.token_ratio,
        server_uses=Counter(run.server_uses) + Counter(command.server_uses),
        stopped_by=_stopped_by(command.firings),
        engine=None,
    )
    charges.charge(draft, command.usage)
    for firing in command.firings:
        draft.tell_guard(firing)
    if command.calls and run.status is RunStatus.CANCELLING:
        endings.close(draft, Trigger.CONFIRM_CANCEL)
    elif command.calls and command.stop not in {Stop.LENGTH, Stop.FILTER}:
        _speak_and_call(draft, command)
    else:
        _answer(draft, command)


def turn_failed(draft: Draft, command: TurnFailed) -> None:
    """End the run: the model could not be asked. One that is to be cancelled is cancelled."""
    _check_fence(draft, command.generation)
    _keep(draft, command.record)
    draft.set_run(failed_attempts=draft.run.failed_attempts + command.failed_attempts)
    if draft.run.status is RunStatus.CANCELLING:
        endings.close(draft, Trigger.CONFIRM_CANCEL)
        return
    endings.fail(draft, LastError(code=command.code, message=command.message))


def run_out(draft: Draft, command: RunOut) -> None:
    """End the run before a turn that its prompt tokens do not allow."""
    _check_fence(draft, command.generation)
    _keep(draft, command.record)
    endings.run_out(draft, "max_prompt_tokens", command.message)


def requeue_turn(draft: Draft, command: RequeueTurn) -> None:
    """Give the turn to another engine; the generation that is given up may write no more."""
    _check_fence(draft, command.generation)
    _keep(draft, command.record)
    if draft.run.status is RunStatus.CANCELLING:
        endings.close(draft, Trigger.CONFIRM_CANCEL)
        return
    steps.abandon(draft)
    draft.tell_run(EventType.TURN_LOST, detail=draft.run.engine)
    failed_attempts = draft.run.failed_attempts + command.failed_attempts
    draft.move(Trigger.REQUEUE_TURN, engine=None, failed_attempts=failed_attempts)
    draft.ask(ClearTimer(_lease(command.generation)), QueueTurn())


def _keep(draft: Draft, record: TurnRecord | None) -> None:
    if record is not None:
        draft.ask(KeepTurn(record))


def _check_fence(draft: Draft, generation: int) -> None:
    run = draft.run
    holds_turn = run.status in {RunStatus.IN_PROGRESS, RunStatus.CANCELLING}
    if not holds_turn or run.generation != generation:
        raise StaleTurn(run.id, generation, run.status)


def _answer(draft: Draft, command: TurnResult) -> None:
    """A turn without calls is the end. An empty one is stored as an empty message, so that no older
    message can be taken for the answer. A reply that was cut off never runs its calls.
    """
    match command.stop:
        case Stop.LENGTH:
            _write_message(draft, command, command.usage, cut_by="max_tokens")
            endings.run_out(draft, "max_completion_tokens", caps.cut_off(draft.run, draft.spec))
        case Stop.FILTER:
            _write_message(draft, command, command.usage, "content_filter", error=_FILTERED)
            endings.fail(draft, _FILTERED)
        case Stop.DONE | Stop.TOOLS:
            _write_message(draft, command, command.usage)
            endings.close(draft, Trigger.COMPLETE)
        case _:
            assert_never(command.stop)


def _speak_and_call(draft: Draft, command: TurnResult) -> None:
    """Tokens of a turn are counted once: on its calls, or on its message if a cap forbids those."""
    cap = caps.reached(draft.aggregate, command.calls)
    if command.text or command.refusal or steps.open_step(draft, "message_creation"):
        beside_calls = Usage() if command.usage else None
        _write_message(draft, command, command.usage if cap else beside_calls)
    if cap is None:
        _ask_for_tools(draft, command)
    elif cap.incomplete_reason:
        endings.run_out(draft, cap.incomplete_reason, cap.message)
    else:
        endings.fail(draft, LastError(code=cap.code, message=cap.message))


def _ask_for_tools(draft: Draft, command: TurnResult) -> None:
    turn = draft.run.turns - 1
    begun = steps.open_step(draft, "tool_calls")
    step = begun or steps.new_step(draft, command.calls_step_id, "tool_calls", turn)
    pinned = {name for name, tool in command.tools.items() if tool.pin_result}
    pinned.update(draft.spec.pinned_tools)
    asked = tuple(_asked(call, is_pinned=call.name in pinned) for call in command.calls)
    draft.append(
        CallRound(seq=0, run_id=draft.run.id, turn=turn, calls=asked, blocks=command.blocks)
    )
    step = step.but(call_ids=tuple(call.call_id for call in command.calls), usage=command.usage)
    draft.put_step(step, None if begun else EventType.STEP_CREATED)
    if begun is None:
        _tell_whole_calls(draft, step.id, command.calls)
    calls.open_round(draft, step.id, command.calls, command.tools)
    draft.move(Trigger.REQUIRE_TOOLS)
    calls.finish_round(draft)


def _tell_whole_calls(draft: Draft, step_id: str, asked: Sequence[ProposedCall]) -> None:
    """For readers who join a step out of deltas, and have had none of these calls.

    Calls that follow on words are told only now: clients take no step while one is open.
    """
    for index, call in enumerate(asked):
        delta = {
            "step_id": step_id,
            "index": index,
            "call_id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
        }
        draft.tell_delta(EventType.STEP_DELTA, delta)


def _write_message(
    draft: Draft,
    command: TurnResult,
    usage: Usage | None,
    cut_by: str | None = None,
    error: LastError | None = None,
) -> None:
    step = steps.open_step(draft, "message_creation") or steps.begin_message(
        draft, command.message_id, command.message_step_id, draft.run.turns - 1
    )
    content = _content(draft, command)
    if command.refusal:
        _tell_refusal(draft, step.message_id, content)
    steps.end_message(draft, step, content, cut_by=cut_by)
    if error:
        steps.fail(draft, step, error, usage)
    else:
        steps.complete(draft, step, usage)


def _content(draft: Draft, command: TurnResult) -> tuple[Json, ...]:
    """A refusal follows on what was said before it, which readers have had."""
    if command.refusal:
        return (*steps.partial_content(draft), {"type": "refusal", "refusal": command.refusal})
    return steps.text_content(command.text or "")


def _stopped_by(firings: Sequence[Firing]) -> str | None:
    """The rule whose refusal is the answer; one that stops a call or an output ends nothing."""
    ends = {GuardPoint.INPUT, GuardPoint.OUTPUT}
    rules = [firing.rule for firing in firings if firing.verdict == "stop" and firing.on in ends]
    return rules[-1] if rules else None


def _tell_refusal(draft: Draft, message_id: str | None, content: Sequence[Json]) -> None:
    index = len(content) - 1
    delta = {"message_id": message_id, "index": index, "refusal": content[index]["refusal"]}
    draft.tell_delta(EventType.MESSAGE_DELTA, delta)


def _asked(call: ProposedCall, *, is_pinned: bool) -> AskedCall:
    arguments = call.arguments if call.asked_arguments is None else call.asked_arguments
    return AskedCall(call_id=call.call_id, name=call.name, arguments=arguments, is_pinned=is_pinned)


def _token_ratio(command: TurnResult) -> float | None:
    """Within reason: a provider may count nonsense."""
    if not (command.usage and command.usage.prompt_tokens and command.counted_tokens):
        return None
    return min(max(command.usage.prompt_tokens / command.counted_tokens, 0.5), 3.0)


def _lease(generation: int) -> TimerKey:
    return TimerKey(TimerKind.TURN_LEASE, generation)
