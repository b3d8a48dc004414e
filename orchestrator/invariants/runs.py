"""Of the run, its thread, and the bill."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Final

from orchestrator.decisions import CountUsage, EventType, KeepTurn
from orchestrator.invariants.committed import TURN_STATUSES, Committed
from orchestrator.projection import public_status
from orchestrator.records import Executor, StepStatus, Tally, Usage
from orchestrator.states import FINAL, LEGAL, RunStatus

_TOLD_AGAIN: Final = (RunStatus.REQUIRES_ACTION, RunStatus.REQUIRES_ACTION)
"""When clients have answered their calls, and approvals have waited behind them."""
_EDGES: Final = {_TOLD_AGAIN} | {(source, target) for (source, _), target in LEGAL.items()}
_STATUS_EVENTS: Final = {EventType(f"run.{status}"): status for status in RunStatus}
_RUN_ENDS: Final[Mapping[RunStatus, set[str]]] = {
    RunStatus.COMPLETED: {"completed_ms"},
    RunStatus.INCOMPLETE: {"completed_ms", "incomplete_reason"},
    RunStatus.FAILED: {"failed_ms", "last_error"},
    RunStatus.CANCELLED: {"cancelled_ms"},
}


def status_follows_the_table(c: Committed) -> str | None:
    """Otherwise a cancelled run could come back to life, or an ended one end again."""
    told = [_STATUS_EVENTS[e.type] for e in c.decision.events if e.type in _STATUS_EVENTS]
    path = [c.was.status, *told] if c.was else told
    if path[-1:] != [c.run.status]:
        return f"{c.run.status}, but the events say {path}"
    return next((f"{a} to {b}" for a, b in pairwise(path) if (a, b) not in _EDGES), None)


def final_runs_never_change(c: Committed) -> str | None:
    """Otherwise what a client was told of the end would turn out wrong. Metadata may change."""
    if not c.was or not c.was.is_final:
        return None
    same = c.run.but(metadata=c.was.metadata, updated_ms=c.was.updated_ms)
    return None if same == c.was else f"{c.was} became {c.run}"


def an_end_has_its_time_and_reason(c: Committed) -> str | None:
    """Otherwise a client reads "failed" and not why, or "running" with a time of its end."""
    every = set[str]().union(*_RUN_ENDS.values())
    found = {name for name in every if getattr(c.run, name) is not None}
    return None if found == _RUN_ENDS.get(c.run.status, set()) else f"{c.run.status} has {found}"


def a_final_run_leaves_nothing_open(c: Committed) -> str | None:
    """Otherwise tools would work on for a run that nobody waits for."""
    if not c.run.is_final:
        return None
    steps = [step.id for step in c.after.steps if step.status is StepStatus.IN_PROGRESS]
    left = [call.id for call in c.after.open_calls()] + steps
    return f"{left} still open" if left else None


def the_lock_is_the_active_run(c: Committed) -> str | None:
    """Otherwise a thread would be locked for ever, or two runs would write into it at once. A run
    that waits for another one's end is queued.
    """
    thread = c.after.thread
    is_locked = thread.active_run_id == c.run.id
    is_waiting = any(one.run_id == c.run.id for one in thread.waiting)
    is_right = is_locked + is_waiting == int(not c.run.is_final)
    if is_right and (not is_waiting or c.run.status is RunStatus.QUEUED):
        return None
    return f"{c.run.status}, locked: {is_locked}, waiting: {is_waiting}"


def a_free_thread_is_waited_for_by_nobody(c: Committed) -> str | None:
    """Otherwise what waits would wait for ever. A deleted thread is free."""
    thread = c.after.thread
    is_free = thread.active_run_id is None
    if is_free >= thread.is_deleted and not (is_free and thread.waiting):
        return None
    return f"active: {thread.active_run_id}, waiting: {thread.waiting}"


def an_engine_has_the_turn_or_nobody(c: Committed) -> str | None:
    """Otherwise operators would look for a run on an engine that has let go of it."""
    has_engine = c.run.engine is not None
    is_turn = c.run.status in TURN_STATUSES
    return None if has_engine == is_turn else f"{c.run.status} with engine {c.run.engine}"


def open_calls_mean_requires_action(c: Committed) -> str | None:
    """Otherwise a run would wait for nobody, or the model be asked before its tools answered."""
    open_ids = [call.id for call in c.after.open_calls()]
    is_waiting = c.run.status is RunStatus.REQUIRES_ACTION
    return None if bool(open_ids) == is_waiting else f"{c.run.status} with open calls {open_ids}"


def clients_wait_only_for_themselves(c: Committed) -> str | None:
    """Otherwise stock clients stop polling, or run a tool that a worker is running; or nobody would
    see that a call waits to be approved.
    """
    shown = public_status(c.run, c.after.calls)
    waiting = [x.id for x in c.after.calls if x.executor is Executor.CLIENT and not x.is_settled]
    waiting += [x.id for x in c.after.calls_to_approve()]
    is_shown = shown is RunStatus.REQUIRES_ACTION
    return None if is_shown == bool(waiting) else f"shown as {shown}, waiting: {waiting}"


def usage_is_that_of_the_steps(c: Committed) -> str | None:
    """Otherwise bills and reports differ. Summaries belong to no step. The last turn of a run that
    was cut short may have left none, so there the run may have used more.
    """
    spent = c.run.summary_usage or Usage()
    for step in c.after.steps:
        spent = spent.plus(step.usage)
    total = c.run.usage or Usage()
    is_cut_short = c.run.status in FINAL - {RunStatus.COMPLETED, RunStatus.EXPIRED}
    if total == spent or (is_cut_short and total.total_tokens > spent.total_tokens):
        return None
    return f"run {total}, steps {spent}"


def what_is_counted_is_what_the_run_used(c: Committed) -> str | None:
    """Otherwise the bills of tenants and threads would not be those of their runs."""
    counted = Tally()
    for effect in c.decision.effects:
        if isinstance(effect, CountUsage):
            counted = counted.plus(effect.tally)
    before = c.was.usage if c.was else None
    tokens = Usage.model_validate(counted.model_dump())
    price = c.after.spec.price if c.after.spec else None
    cost_micros = price.micros((before or Usage()).plus(tokens)) if price else 0
    cost_micros -= price.micros(before) if price and before else 0
    spent = (c.before or c.after).thread.spent.plus(counted)
    is_counted = (before or Usage()).plus(tokens) == (c.run.usage or Usage())
    if is_counted and cost_micros == counted.cost_micros and spent == c.after.thread.spent:
        return None
    return f"{before} became {c.run.usage}, {spent} {c.after.thread.spent}, counted {counted}"


def a_turn_that_ended_is_known(c: Committed) -> str | None:
    """Otherwise nobody could say what its model was shown, or would say it of another turn."""
    kept = [e.record for e in c.decision.effects if isinstance(e, KeepTurn)]
    has_ended = c.was is not None and c.run.turns > c.was.turns
    if not kept and not has_ended:
        return None
    held = c.was and [(c.was.turns, c.was.generation)]
    found = [(record.turn, record.generation) for record in kept]
    return None if found == held else f"kept {found}, held {held}"


def a_run_belongs_to_the_tenant_of_its_thread(c: Committed) -> str | None:
    """Otherwise somebody could find a run and not its thread, or pay for another's."""
    whose, spec = c.after.thread.tenant, c.after.spec
    is_so = spec is None or spec.tenant == whose
    has_stayed = c.before is None or c.before.thread.tenant == whose
    return None if is_so and has_stayed else f"the thread is {whose}'s, the run {spec}"
