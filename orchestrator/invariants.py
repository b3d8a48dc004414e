"""What must hold of every run after every step, as one named list.

An invariant looks at one committed step and says what is wrong with it, or nothing; its docstring
says what users would lose without it. Random and exhaustive command sequences are held against the
same list, and so may be whatever a store really holds.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from orchestrator.conversation import NO_OUTPUT, Answered, build
from orchestrator.decide.calls import MAX_LATE_RESULTS
from orchestrator.decisions import (
    Decision,
    EventType,
    QueueTurn,
    SendCall,
    StopCall,
    TimerKey,
    TimerKind,
)
from orchestrator.projection import public_status
from orchestrator.records import (
    Aggregate,
    CallRound,
    CallState,
    Entry,
    Executor,
    Message,
    Output,
    Run,
    StepStatus,
    ToolCall,
    Usage,
)
from orchestrator.states import FINAL, LEGAL, RunStatus

_EDGES: Final = frozenset((source, target) for (source, _), target in LEGAL.items())
_STATUS_EVENTS: Final = {EventType(f"run.{status}"): status for status in RunStatus}
_TURN_STATUSES: Final = frozenset({RunStatus.IN_PROGRESS, RunStatus.CANCELLING})
_OUT_STATES: Final = frozenset({CallState.DISPATCHED, CallState.STARTED})

_RUN_ENDS: Final[Mapping[RunStatus, set[str]]] = {
    RunStatus.COMPLETED: {"completed_ms"},
    RunStatus.INCOMPLETE: {"completed_ms", "incomplete_reason"},
    RunStatus.FAILED: {"failed_ms", "last_error"},
    RunStatus.CANCELLED: {"cancelled_ms"},
}
_STEP_ENDS: Final[Mapping[StepStatus, set[str]]] = {
    StepStatus.COMPLETED: {"completed_ms"},
    StepStatus.FAILED: {"failed_ms"},
    StepStatus.CANCELLED: {"cancelled_ms"},
    StepStatus.EXPIRED: {"expired_ms"},
}


@dataclass(frozen=True, slots=True)
class Committed:
    """One committed step of a run: what was, what was decided, and what is stored after it.

    ``before`` is ``None`` for the step that made the run. ``entries`` is the thread's transcript,
    ``timers`` are this run's alone, each with its time.
    """

    before: Aggregate | None
    decision: Decision
    entries: tuple[Entry, ...]
    timers: Mapping[TimerKey, int]

    @property
    def after(self) -> Aggregate:
        """The aggregate as it is now."""
        return self.decision.aggregate

    @property
    def run(self) -> Run:
        """The run as it is now."""
        return _run(self.after)

    @property
    def was(self) -> Run | None:
        """The run as it was."""
        return _run(self.before) if self.before else None


Invariant = Callable[[Committed], str | None]


def violations(committed: Committed) -> tuple[str, ...]:
    """What is wrong with this step, one sentence per broken invariant; empty when all hold."""
    found = ((invariant.__name__, invariant(committed)) for invariant in INVARIANTS)
    return tuple(f"{name}: {complaint}" for name, complaint in found if complaint)


# -- the run -------------------------------------------------------------------------------------


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
    """Otherwise a thread would be locked for ever, or two runs would write into it at once."""
    is_locked = c.after.thread.active_run_id == c.run.id
    return None if is_locked != c.run.is_final else f"{c.run.status}, locked: {is_locked}"


def an_engine_has_the_turn_or_nobody(c: Committed) -> str | None:
    """Otherwise operators would look for a run on an engine that has let go of it."""
    has_engine = c.run.engine is not None
    is_turn = c.run.status in _TURN_STATUSES
    return None if has_engine == is_turn else f"{c.run.status} with engine {c.run.engine}"


def open_calls_mean_requires_action(c: Committed) -> str | None:
    """Otherwise a run would wait for nobody, or the model be asked before its tools answered."""
    open_ids = [call.id for call in c.after.open_calls()]
    is_waiting = c.run.status is RunStatus.REQUIRES_ACTION
    return None if bool(open_ids) == is_waiting else f"{c.run.status} with open calls {open_ids}"


def clients_wait_only_for_themselves(c: Committed) -> str | None:
    """Otherwise stock clients stop polling, or run a tool that a worker is running."""
    shown = public_status(c.run, c.after.calls)
    waiting = [x.id for x in c.after.calls if x.executor is Executor.CLIENT and not x.is_settled]
    is_shown = shown is RunStatus.REQUIRES_ACTION
    return None if is_shown == bool(waiting) else f"shown as {shown}, waiting: {waiting}"


def usage_is_that_of_the_steps(c: Committed) -> str | None:
    """Otherwise bills and reports differ. The last turn of a run that was cut short may have left
    no step, so there the run may have used more.
    """
    spent = Usage()
    for step in c.after.steps:
        spent = spent.plus(step.usage)
    total = c.run.usage or Usage()
    is_cut_short = c.run.status in FINAL - {RunStatus.COMPLETED, RunStatus.EXPIRED}
    if total == spent or (is_cut_short and total.total_tokens > spent.total_tokens):
        return None
    return f"run {total}, steps {spent}"


# -- steps and calls -----------------------------------------------------------------------------


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
    if ledger != named or [call_id for _, call_id in named] != asked:
        return f"ledger {ledger}, steps {named}, transcript {asked}"
    spoken = [step.message_id for step in steps if step.message_id]
    return None if spoken == said else f"steps {spoken}, transcript {said}"


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
    return None


def late_results_are_few(c: Committed) -> str | None:
    """Otherwise a worker gone wild could fill the store."""
    return next((x.id for x in c.after.calls if len(x.late) > MAX_LATE_RESULTS), None)


# -- the transcript ------------------------------------------------------------------------------


def the_transcript_only_grows(c: Committed) -> str | None:
    """Otherwise the memory of the thread would change behind the model's back."""
    seqs = [entry.seq for entry in c.entries]
    is_ordered = all(a < b for a, b in pairwise([*seqs, c.after.thread.next_seq]))
    return None if is_ordered else f"{seqs}, next is {c.after.thread.next_seq}"


def each_settled_call_has_one_output(c: Committed) -> str | None:
    """Otherwise an answer would be lost, or the model be told twice."""
    outputs = [e for e in c.entries if isinstance(e, Output) and e.run_id == c.run.id]
    found = sorted((e.call_id, e.seq) for e in outputs)
    wanted = sorted((x.id, x.output_seq) for x in c.after.calls if x.output_seq is not None)
    return None if found == wanted else f"outputs {found}, ledger {wanted}"


def the_transcript_is_a_conversation(c: Committed) -> str | None:
    """Otherwise providers refuse the history, and with it every later run of the thread."""
    items = build("", c.entries).items
    answered = [x.call_id for x in items if isinstance(x, Answered) and x.text != NO_OUTPUT]
    settled = [call.id for call in c.after.calls if call.is_settled]
    mine = {call.id for call in c.after.calls}
    found = [call_id for call_id in answered if call_id in mine]
    return None if found == settled else f"answered {found}, settled {settled}"


# -- time ----------------------------------------------------------------------------------------


def counters_never_fall(c: Committed) -> str | None:
    """Otherwise a fence would let a writer through that was shut out before."""
    if c.before is None:
        return None
    old, new = _counters(c.before), _counters(c.after)
    return next((f"{k}: {v} to {new.get(k)}" for k, v in old.items() if new.get(k, -1) < v), None)


def times_never_go_backwards(c: Committed) -> str | None:
    """Otherwise durations are negative, and a run seems to end before it began."""
    run, since = c.run, c.was.updated_ms if c.was else c.run.created_ms
    chains: list[tuple[int | None, ...]] = [
        (run.created_ms, since, *(event.at_ms for event in c.decision.events), run.updated_ms),
        (run.created_ms, run.started_ms, run.completed_ms or run.failed_ms or run.cancelled_ms),
        *((x.created_ms, x.started_ms, x.finished_ms, run.updated_ms) for x in c.after.calls),
        *(
            (x.created_ms, x.completed_ms, x.failed_ms, x.cancelled_ms, x.expired_ms)
            for x in c.after.steps
        ),
    ]
    for chain in chains:
        known = [at_ms for at_ms in chain if at_ms is not None]
        if known != sorted(known):
            return str(chain)
    return None


def the_deadline_never_moves(c: Committed) -> str | None:
    """Otherwise "ten minutes after its creation" would mean nothing."""
    if c.was is None or c.was.deadline_ms == c.run.deadline_ms:
        return None
    return f"{c.was.deadline_ms} to {c.run.deadline_ms}"


def each_wait_has_its_timer(c: Committed) -> str | None:
    """Otherwise a run would wait for ever for somebody who died, or be woken after its end."""
    wanted = needed_timers(c.after)
    if set(c.timers) != wanted:
        return f"missing {wanted - set(c.timers)}, too many {set(c.timers) - wanted}"
    late = {key for key, at_ms in c.timers.items() if at_ms > c.run.deadline_ms}
    return f"after the deadline: {late}" if late else None


def needed_timers(aggregate: Aggregate) -> set[TimerKey]:
    """The timers that a run in this state must have, no more and no less."""
    run = _run(aggregate)
    if run.is_final:
        return set()
    timers = {TimerKey(TimerKind.DEADLINE)}
    if run.status in _TURN_STATUSES:
        timers.add(TimerKey(TimerKind.TURN_LEASE, run.generation))
    if run.status is RunStatus.CANCELLING:
        timers.add(TimerKey(TimerKind.CANCEL_WATCHDOG))
    for call in aggregate.calls:
        if call.state is CallState.STARTED:
            timers.add(TimerKey(TimerKind.CALL_LEASE, call.generation, call.id))
    return timers


# -- events and work to be sent ------------------------------------------------------------------


def nothing_is_asked_without_a_change(c: Committed) -> str | None:
    """Otherwise events and effects would be lost, since only changes are committed."""
    if c.after is not c.before:
        return None
    return str(c.decision) if c.decision.events or c.decision.effects else None


def the_log_ends_with_the_run(c: Committed) -> str | None:
    """Otherwise a reader of the stream would see two ends, or wait for one that never comes. After
    it, only late results are told.
    """
    told = [event.type for event in c.decision.events]
    if c.was and c.was.is_final:
        return None if set(told) <= {EventType.CALL_LATE} else f"told after the end: {told}"
    ends = [place for place, kind in enumerate(told) if _STATUS_EVENTS.get(kind) in FINAL]
    wanted = [len(told) - 1] if c.run.is_final else []
    return None if ends == wanted else f"{c.run.status} was told as {told}"


def the_last_event_tells_how_it_is(c: Committed) -> str | None:
    """Otherwise a reader of the stream and a poller would see different runs."""
    if not c.decision.events:
        return None
    last = c.decision.events[-1]
    wanted = (c.run.status, public_status(c.run, c.after.calls))
    found = (last.status, last.public_status)
    return None if found == wanted else f"told {found}, is {wanted}"


def a_due_turn_is_queued_once(c: Committed) -> str | None:
    """Otherwise a queued run would never be found, or its model be asked twice."""
    asked = sum(isinstance(effect, QueueTurn) for effect in c.decision.effects)
    was_due = c.was is not None and c.was.status is RunStatus.QUEUED
    is_due = c.run.status is RunStatus.QUEUED
    return None if asked == int(is_due and not was_due) else f"{asked} turns, {c.run.status}"


def a_dispatched_call_is_sent_once(c: Committed) -> str | None:
    """Otherwise a tool would never start, or its job be on the queue twice."""
    old = {call.id: call.state for call in c.before.calls} if c.before else {}
    due = [
        (call.id, call.queue, c.run.deadline_ms)
        for call in c.after.calls
        if call.state is CallState.DISPATCHED is not old.get(call.id)
    ]
    sent = [
        (effect.call_id, effect.queue, effect.deadline_ms)
        for effect in c.decision.effects
        if isinstance(effect, SendCall)
    ]
    return None if sent == due else f"sent {sent}, due {due}"


def a_call_that_is_given_up_is_stopped(c: Committed) -> str | None:
    """Otherwise a cancelled run would go on to have effects in the world."""
    stopped = {e.call_id for e in c.decision.effects if isinstance(e, StopCall)}
    for old in c.before.calls if c.before else ():
        new = c.after.call(old.id)
        is_dropped = new is not None and new.state is CallState.CANCELLED
        if old.state in _OUT_STATES and is_dropped and old.id not in stopped:
            return old.id
    return None


INVARIANTS: Final[tuple[Invariant, ...]] = (
    status_follows_the_table,
    final_runs_never_change,
    an_end_has_its_time_and_reason,
    a_final_run_leaves_nothing_open,
    the_lock_is_the_active_run,
    an_engine_has_the_turn_or_nobody,
    open_calls_mean_requires_action,
    clients_wait_only_for_themselves,
    usage_is_that_of_the_steps,
    steps_are_in_order_and_end_once,
    steps_show_what_was_written,
    settled_calls_never_change,
    tools_run_no_more_than_they_may,
    late_results_are_few,
    the_transcript_only_grows,
    each_settled_call_has_one_output,
    the_transcript_is_a_conversation,
    counters_never_fall,
    times_never_go_backwards,
    the_deadline_never_moves,
    each_wait_has_its_timer,
    nothing_is_asked_without_a_change,
    the_log_ends_with_the_run,
    the_last_event_tells_how_it_is,
    a_due_turn_is_queued_once,
    a_dispatched_call_is_sent_once,
    a_call_that_is_given_up_is_stopped,
)


def _run(aggregate: Aggregate) -> Run:
    assert aggregate.run is not None  # noqa: S101 - invariants are about runs
    return aggregate.run


def _most_attempts(call: ToolCall) -> int:
    if call.executor is not Executor.WORKER:
        return 0
    return 1 if call.side_effects == "once" else call.max_attempts


def _counters(aggregate: Aggregate) -> dict[str, int]:
    run = _run(aggregate)
    counters = {
        "generation": run.generation,
        "turns": run.turns,
        "failed attempts": run.failed_attempts,
        "next step": run.next_step,
        "used tokens": run.usage.total_tokens if run.usage else 0,
        "next entry": aggregate.thread.next_seq,
    }
    return counters | {call.id: call.attempts for call in aggregate.calls}
