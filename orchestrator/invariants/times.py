"""Of counters, generations, times and timers."""

from orchestrator.decide.calls import TIMERS
from orchestrator.decisions import TimerKey, TimerKind
from orchestrator.invariants.committed import TURN_STATUSES, Committed, run_of
from orchestrator.records import Aggregate, CallState
from orchestrator.states import RunStatus


def counters_never_fall(c: Committed) -> str | None:
    """Otherwise a fence would let a writer through that was shut out before."""
    if c.before is None:
        return None
    old, new = _counters(c.before), _counters(c.after)
    return next((f"{k}: {v} to {new.get(k)}" for k, v in old.items() if new.get(k, -1) < v), None)


def each_holder_has_its_own_generation(c: Committed) -> str | None:
    """Otherwise an engine or worker that was given up could still speak for the next one."""
    if c.before is None:
        return None
    fences, held = _counters(c.before), _holders(c.before)
    taken = {key: fence for key, fence in _holders(c.after).items() if key not in held}
    return next((f"{k}: {v} again" for k, v in taken.items() if v <= fences.get(k, 0)), None)


def times_never_go_backwards(c: Committed) -> str | None:
    """Otherwise durations are negative, and a run seems to end before it began."""
    run, since = c.run, c.was.updated_ms if c.was else c.run.created_ms
    chains: list[tuple[int | None, ...]] = [
        (run.created_ms, since, *(event.at_ms for event in c.decision.events), run.updated_ms),
        (run.created_ms, run.started_ms, run.completed_ms or run.failed_ms or run.cancelled_ms),
        *(
            (x.created_ms, x.approved_ms, x.started_ms, x.finished_ms, run.updated_ms)
            for x in c.after.calls
        ),
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
    run = run_of(aggregate)
    if run.is_final:
        return set()
    timers = {TimerKey(TimerKind.DEADLINE)}
    if run.status in TURN_STATUSES:
        timers.add(TimerKey(TimerKind.TURN_LEASE, run.generation))
    if run.status is RunStatus.CANCELLING:
        timers.add(TimerKey(TimerKind.CANCEL_WATCHDOG))
    for call in aggregate.calls:
        if kind := TIMERS.get(call.state):
            timers.add(TimerKey(kind, call.generation, call.id))
    return timers


def _counters(aggregate: Aggregate) -> dict[str, int]:
    run = run_of(aggregate)
    counters = {
        "generation": run.generation,
        "turns": run.turns,
        "failed attempts": run.failed_attempts,
        "failed summaries": run.failed_summaries,
        "next step": run.next_step,
        "used tokens": run.usage.total_tokens if run.usage else 0,
        "next entry": aggregate.thread.next_seq,
    }
    counters |= {f"uses of {name}": uses for name, uses in run.server_uses.items()}
    return counters | {call.id: call.attempts for call in aggregate.calls}


def _holders(aggregate: Aggregate) -> dict[str, int]:
    """Who has the turn and the calls now: their generations, by the names of the counters."""
    run = run_of(aggregate)
    turn = {"generation": run.generation} if run.status in TURN_STATUSES else {}
    calls = {x.id: x.generation for x in aggregate.calls if x.state is CallState.STARTED}
    return turn | calls
