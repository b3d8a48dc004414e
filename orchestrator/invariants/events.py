"""Of what is told, and of the work that is sent out."""

from typing import Final

from orchestrator.decisions import EventType, QueueTurn, RetireLog, SendCall, StopCall
from orchestrator.invariants.committed import Committed
from orchestrator.projection import public_status
from orchestrator.records import CallState, StepStatus, ToolCall
from orchestrator.states import FINAL, RunStatus

_ENDS: Final = frozenset(EventType(f"run.{status}") for status in FINAL)
_OUT_STATES: Final = frozenset({CallState.DISPATCHED, CallState.STARTED})


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
    ends = [place for place, kind in enumerate(told) if kind in _ENDS]
    wanted = [len(told) - 1] if c.run.is_final else []
    return None if ends == wanted else f"{c.run.status} was told as {told}"


def a_log_is_retired_when_it_is_complete(c: Committed) -> str | None:
    """Otherwise logs would fill the store, or go before their end could be read. What is told late
    makes the log complete anew.
    """
    asked = [effect for effect in c.decision.effects if isinstance(effect, RetireLog)]
    is_complete = c.run.is_final and bool(c.decision.events)
    return None if len(asked) == int(is_complete) else f"{c.run.status}: {len(asked)} times"


def the_last_event_tells_how_it_is(c: Committed) -> str | None:
    """Otherwise a reader of the stream and a poller would see different runs."""
    if not c.decision.events:
        return None
    last = c.decision.events[-1]
    wanted = (c.run.status, public_status(c.run, c.after.calls))
    found = (last.status, last.public_status)
    return None if found == wanted else f"told {found}, is {wanted}"


def readers_are_told_of_one_step_at_a_time(c: Committed) -> str | None:
    """Otherwise the stream helpers of some clients would give up the whole run."""
    open_ids = [
        step.id
        for step in (c.before.steps if c.before else ())
        if step.status is StepStatus.IN_PROGRESS and not step.is_aside
    ]
    for event in c.decision.events:
        if event.step is None or event.step.is_aside:
            continue
        begins = event.type is EventType.STEP_CREATED
        if open_ids != ([] if begins else [event.step.id]):
            return f"{event.type} of {event.step.id} while {open_ids} are open"
        open_ids = [event.step.id] if begins else []
    return None


def what_is_told_of_a_message_is_kept_in_it(c: Committed) -> str | None:
    """Otherwise a client that joins what it is told would have another message than one that reads
    it afterwards.
    """
    told = c.decision.events
    ended = {event.message.id: event.message.content for event in told if event.message}
    for event in told:
        if event.type is EventType.MESSAGE_DELTA and event.delta:
            part = {"type": "refusal", "refusal": event.delta["refusal"]}
            content = ended[event.delta["message_id"]]
            if event.delta["index"] != len(content) - 1 or content[-1] != part:
                return f"told {event.delta}, kept {content}"
    return None


def a_due_turn_is_queued_once(c: Committed) -> str | None:
    """Otherwise a queued run would never be found, or its model be asked twice."""
    effects = c.decision.effects
    asked = [e.run_id or c.run.id for e in effects if isinstance(e, QueueTurn)]
    was_due = c.was is not None and c.was.status is RunStatus.QUEUED
    due = [c.run.id] if c.run.status is RunStatus.QUEUED and not was_due else []
    active = c.after.thread.active_run_id
    if c.before and active not in {None, c.run.id, c.before.thread.active_run_id}:
        due.append(active)
    return None if asked == due else f"asked {asked}, due {due}"


def a_dispatched_call_is_sent_once(c: Committed) -> str | None:
    """Otherwise a tool would never start, or its job be on the queue twice (as may a lost one)."""
    before = {call.id: call for call in c.before.calls} if c.before else {}
    waiting = [call for call in c.after.calls if call.state is CallState.DISPATCHED]
    due = [call for call in waiting if _is_sent_anew(before.get(call.id), call)]
    sends = [effect for effect in c.decision.effects if isinstance(effect, SendCall)]
    sent = [(x.call_id, x.queue, x.deadline_ms) for x in sends if not x.is_repeat]
    wanted = [(call.id, call.queue, c.run.deadline_ms) for call in due]
    if sent != wanted:
        return f"sent {sent}, due {wanted}"
    known = {call.id for call in waiting} - {call.id for call in due}
    return next((x.call_id for x in sends if x.is_repeat and x.call_id not in known), None)


def a_call_that_is_given_up_is_stopped(c: Committed) -> str | None:
    """Otherwise a cancelled run would go on to have effects in the world."""
    stopped = {e.call_id for e in c.decision.effects if isinstance(e, StopCall)}
    for old in c.before.calls if c.before else ():
        new = c.after.call(old.id)
        is_dropped = new is not None and new.state is CallState.CANCELLED
        if old.state in _OUT_STATES and is_dropped and old.id not in stopped:
            return old.id
    return None


def _is_sent_anew(old: ToolCall | None, new: ToolCall) -> bool:
    if old is None or old.state is not CallState.DISPATCHED:
        return True
    return old.allowed_again != new.allowed_again
