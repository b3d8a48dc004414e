"""Of steps and calls."""

from collections.abc import Mapping
from typing import Final

from orchestrator.decide.calls import MAX_LATE_RESULTS
from orchestrator.decisions import KeepOutput
from orchestrator.invariants.committed import Committed
from orchestrator.records import CallRound, Executor, Message, Output, StepStatus, ToolCall

_STEP_ENDS: Final[Mapping[StepStatus, set[str]]] = {
    StepStatus.COMPLETED: {"completed_ms"},
    StepStatus.FAILED: {"failed_ms"},
    StepStatus.CANCELLED: {"cancelled_ms"},
    StepStatus.EXPIRED: {"expired_ms"},
}


def steps_are_in_order_and_end_once(c: Committed) -> str | None:
    """Otherwise the list of steps would skip, repeat, or show a step both done and failed."""
    if [step.index for step in c.after.steps] != list(range(c.run.next_step)):
        return f"steps {[step.index for step in c.after.steps]}, next is {c.run.next_step}"
    every = set[str]().union(*_STEP_ENDS.values())
    for step in c.after.steps:
        found = {name for name in every if getattr(step, name) is not None}
        if found != _STEP_ENDS.get(step.status, set()):
            return f"{step.id} is {step.status} and has {found}"
    return None


def steps_show_what_was_written(c: Committed) -> str | None:
    """Otherwise a step would name a message or calls that the transcript does not have, or have
    them in another order than the model.
    """
    steps = c.after.steps
    ledger = [(call.step_id, call.id) for call in c.after.calls]
    named = [(step.id, call_id) for step in steps for call_id in step.call_ids]
    mine = [e for e in c.entries if not isinstance(e, Output) and e.run_id == c.run.id]
    asked = [call.call_id for e in mine if isinstance(e, CallRound) for call in e.calls]
    said = [e.id for e in mine if isinstance(e, Message)]
    spoken = [step.message_id for step in steps if step.message_id]
    shown = ([call_id for _, call_id in named], spoken)
    written = ([], []) if c.run.is_rolled_back else shown
    if ledger == named and (asked, said) == written:
        return None
    return f"ledger {ledger}, steps {shown}, transcript {(asked, said)}"


def settled_calls_never_change(c: Committed) -> str | None:
    """Otherwise a late result would overwrite what the model was already told."""
    for old in c.before.calls if c.before else ():
        new = c.after.call(old.id)
        if not old.is_settled or new is old:
            continue
        if new is None or new.but(late=old.late) != old:
            return f"{old} became {new}"
    return None


def tools_run_no_more_than_they_may(c: Committed) -> str | None:
    """Otherwise a card would be charged twice, or a tool that kills its worker run for ever."""
    for call in c.after.calls:
        if call.attempts > _most_attempts(call) or call.generation != call.attempts:
            return f"{call.id} ({call.side_effects}): {call.attempts}, {call.generation}"
        if call.answered > call.generation:
            return f"{call.id} was answered by {call.answered}, claimed by {call.generation}"
    return None


def nothing_starts_before_it_is_approved(c: Committed) -> str | None:
    """Otherwise money would be moved that somebody wanted to be asked about."""
    for call in c.after.calls:
        is_held_back = call.approve_by_ms is not None and call.approved_ms is None
        if is_held_back and (call.dispatched_ms is not None or call.attempts):
            return f"{call.id} is {call.state}"
    return None


def no_worker_answers_for_the_client(c: Committed) -> str | None:
    """Otherwise a replay would send a letter that was sent long ago."""
    if c.after.spec is None or c.after.spec.executor == "auto":
        return None
    return next((x.id for x in c.after.calls if x.executor is Executor.WORKER), None)


def late_results_are_few(c: Committed) -> str | None:
    """Otherwise a worker gone wild could fill the store."""
    return next((x.id for x in c.after.calls if len(x.late) > MAX_LATE_RESULTS), None)


def the_whole_of_a_cut_output_is_kept(c: Committed) -> str | None:
    """Otherwise people would be promised the rest of an output, and find nothing."""
    old = {call.id for call in c.before.calls if call.has_full_output} if c.before else set()
    cut = {call.id for call in c.after.calls if call.has_full_output} - old
    kept = {effect.call_id for effect in c.decision.effects if isinstance(effect, KeepOutput)}
    return f"cut {cut}, kept {kept}" if cut != kept else None


def _most_attempts(call: ToolCall) -> int:
    if call.executor is not Executor.WORKER:
        return 0
    return call.allowed_again + (1 if call.side_effects == "once" else call.max_attempts)
