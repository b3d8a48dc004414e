"""What engines do: take a turn, bring the model's reply, or let go of it."""

from typing import Literal, assert_never

from orchestrator.commands import ProposedCall, RequeueTurn, StartTurn, Stop, TurnFailed, TurnResult
from orchestrator.decide import calls, endings
from orchestrator.decide.draft import Draft
from orchestrator.decisions import ClearTimer, EventType, QueueTurn, TimerKey, TimerKind
from orchestrator.errors import StaleTurn
from orchestrator.records import (
    AskedCall,
    CallRound,
    LastError,
    Message,
    MessageStatus,
    Step,
    StepStatus,
    Usage,
)
from orchestrator.states import RunStatus, Trigger


def start_turn(draft: Draft, command: StartTurn) -> None:
    """Give the turn to this engine under a new generation."""
    run = draft.run
    if run.status is not RunStatus.QUEUED:
        raise StaleTurn(run.id, run.generation, run.status)
    generation = run.generation + 1
    draft.move(
        Trigger.START_TURN,
        generation=generation,
        engine=command.engine,
        started_ms=draft.now_ms,
    )
    draft.set_timer(_lease(generation), draft.now_ms + command.lease_ms)


def turn_result(draft: Draft, command: TurnResult) -> None:
    """Store the reply, and go on: to the end, or to the tools that it asks for."""
    _check_fence(draft, command.generation)
    run = draft.run
    draft.ask(ClearTimer(_lease(run.generation)))
    draft.set_run(
        turns=run.turns + 1,
        failed_attempts=run.failed_attempts + command.failed_attempts,
        usage=_sum(run.usage, command.usage),
        engine=None,
    )
    if command.calls and run.status is RunStatus.CANCELLING:
        endings.close(draft, Trigger.CONFIRM_CANCEL)
    elif command.calls and command.stop not in {Stop.LENGTH, Stop.FILTER}:
        _speak_and_call(draft, command)
    else:
        _answer(draft, command)


def turn_failed(draft: Draft, command: TurnFailed) -> None:
    """End the run: the model could not be asked."""
    _check_fence(draft, command.generation)
    draft.set_run(failed_attempts=draft.run.failed_attempts + command.failed_attempts)
    endings.fail(draft, LastError(code=command.code, message=command.message))


def requeue_turn(draft: Draft, command: RequeueTurn) -> None:
    """Give the turn to another engine; the generation that is given up may write no more."""
    _check_fence(draft, command.generation)
    if draft.run.status is RunStatus.CANCELLING:
        endings.close(draft, Trigger.CONFIRM_CANCEL)
        return
    draft.tell_run(EventType.TURN_LOST, detail=draft.run.engine)
    draft.move(Trigger.REQUEUE_TURN, engine=None)
    draft.ask(ClearTimer(_lease(command.generation)), QueueTurn())


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
            endings.run_out(draft, "max_completion_tokens")
        case Stop.FILTER:
            _write_message(draft, command, command.usage, cut_by="content_filter")
            text = "The model's answer was stopped by its provider's content filter."
            endings.fail(draft, LastError(code="server_error", message=text))
        case Stop.DONE | Stop.TOOLS:
            _write_message(draft, command, command.usage)
            endings.close(draft, Trigger.COMPLETE)
        case _:
            assert_never(command.stop)


def _speak_and_call(draft: Draft, command: TurnResult) -> None:
    """Tokens of a turn are counted once: on its calls, or on its message if a cap forbids those."""
    cap = _reached_cap(draft)
    if command.text or command.refusal:
        beside_calls = Usage() if command.usage else None
        _write_message(draft, command, command.usage if cap else beside_calls)
    match cap:
        case None:
            _ask_for_tools(draft, command)
        case "max_turns":
            text = (
                f"The run used all of its {draft.spec.max_turns} model turns and the model asked"
                " for more tools. Raise RUNSTATE_MAX_TURNS, or find out why it does not come to an"
                " answer."
            )
            endings.fail(draft, LastError(code="server_error", message=text))
        case _:
            endings.run_out(draft, cap)


def _reached_cap(
    draft: Draft,
) -> Literal["max_completion_tokens", "max_prompt_tokens", "max_turns"] | None:
    spent = draft.run.usage or Usage()
    spec = draft.spec
    if spec.max_completion_tokens and spent.completion_tokens >= spec.max_completion_tokens:
        return "max_completion_tokens"
    if spec.max_prompt_tokens and spent.prompt_tokens >= spec.max_prompt_tokens:
        return "max_prompt_tokens"
    return "max_turns" if draft.run.turns >= spec.max_turns else None


def _ask_for_tools(draft: Draft, command: TurnResult) -> None:
    step = _new_step(draft, command.calls_step_id, "tool_calls", usage=command.usage)
    turn = draft.run.turns - 1
    asked = tuple(_asked(call) for call in command.calls)
    draft.append(CallRound(seq=0, run_id=draft.run.id, turn=turn, calls=asked))
    draft.put_step(
        step.but(call_ids=tuple(call.call_id for call in command.calls)), EventType.STEP_CREATED
    )
    calls.open_round(draft, step.id, command.calls, command.tools)
    draft.move(Trigger.REQUIRE_TOOLS)
    calls.finish_round(draft)


def _write_message(
    draft: Draft, command: TurnResult, usage: Usage | None, cut_by: str | None = None
) -> None:
    now_ms = draft.now_ms
    step = _new_step(draft, command.message_step_id, "message_creation", usage=usage)
    step = step.but(message_id=command.message_id)
    draft.put_step(step, EventType.STEP_CREATED)
    message = Message(
        seq=0,
        id=command.message_id,
        thread_id=draft.aggregate.thread.id,
        created_ms=now_ms,
        role="assistant",
        content=_content(command),
        assistant_id=draft.spec.assistant_id,
        run_id=draft.run.id,
        turn=draft.run.turns - 1,
        status=MessageStatus.INCOMPLETE if cut_by else MessageStatus.COMPLETED,
        incomplete_reason=cut_by,
        incomplete_ms=now_ms if cut_by else None,
        completed_ms=None if cut_by else now_ms,
    )
    message = message.but(seq=draft.append(message))
    draft.tell_message(EventType.MESSAGE_CREATED, message)
    ended = EventType.MESSAGE_INCOMPLETE if cut_by else EventType.MESSAGE_COMPLETED
    draft.tell_message(ended, message)
    if cut_by != "content_filter":
        step = step.but(status=StepStatus.COMPLETED, completed_ms=now_ms)
        draft.put_step(step, EventType.STEP_COMPLETED)


def _content(command: TurnResult) -> tuple[dict[str, object], ...]:
    if command.refusal:
        return ({"type": "refusal", "refusal": command.refusal},)
    return ({"type": "text", "text": {"value": command.text or "", "annotations": []}},)


def _new_step(
    draft: Draft,
    step_id: str,
    kind: Literal["message_creation", "tool_calls"],
    usage: Usage | None,
) -> Step:
    index = draft.run.next_step
    draft.set_run(next_step=index + 1)
    return Step(
        id=step_id,
        index=index,
        type=kind,
        status=StepStatus.IN_PROGRESS,
        created_ms=draft.now_ms,
        usage=usage,
    )


def _asked(call: ProposedCall) -> AskedCall:
    return AskedCall(call_id=call.call_id, name=call.name, arguments=call.arguments)


def _sum(so_far: Usage | None, more: Usage | None) -> Usage | None:
    return more if so_far is None else so_far.plus(more)


def _lease(generation: int) -> TimerKey:
    return TimerKey(TimerKind.TURN_LEASE, generation)
