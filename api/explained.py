"""One run with all that explains it, for operators: read once, shown as JSON and on a page."""

import asyncio
from dataclasses import dataclass

from orchestrator.decisions import Event
from orchestrator.records import CallState
from orchestrator.shell import view_run
from orchestrator.states import RunStatus
from orchestrator.store import RunRef, RunView, Store, served_queues
from orchestrator.story.reason import Surroundings, reason
from orchestrator.story.time_spent import Span, time_spent
from orchestrator.story.timeline import Happening, timeline
from orchestrator.turn_record import TurnRecord


@dataclass(frozen=True, slots=True)
class Explained:
    """A run and its story. ``turns`` are those that ended and the one that is played now;
    ``events`` have their ids, and tell no pieces of what the model said;
    ``unserved`` are queues that its calls wait on, and no live worker listens to. A log that is not
    kept any more is empty.
    """

    view: RunView
    turns: tuple[TurnRecord, ...]
    events: tuple[tuple[str, Event], ...]
    unserved: tuple[str, ...]
    why: str
    timeline: list[Happening]
    time_spent: tuple[Span, ...]


async def explained(store: Store, run_id: str) -> Explained:
    """The run, wherever its thread is. Four round trips or so."""
    ref = await store.find_run(run_id)
    view = await view_run(store, ref)
    turns, events, served, engines, ahead = await asyncio.gather(
        store.read_turns(ref),
        store.read_events(ref, has_deltas=False),
        served_queues(store),
        store.present("engine"),
        _ahead(store, view),
    )
    waited_on = {x.queue for x in view.calls if x.queue and x.state is CallState.DISPATCHED}
    unserved = tuple(sorted(waited_on - served))
    failures = [failure for turn in turns for failure in turn.failures]
    log = [event for _, event in events]
    return Explained(
        view=view,
        turns=tuple(turn.as_ended_with(view.run) for turn in turns),
        events=events,
        unserved=unserved,
        why=reason(view, Surroundings(ahead, bool(engines), unserved, failures)),
        timeline=timeline(view.calls, log),
        time_spent=time_spent(log, view.now_ms),
    )


async def _ahead(store: Store, view: RunView) -> str | None:
    """The run that this one waits for."""
    run = view.run
    if run.status is not RunStatus.QUEUED:
        return None
    active = (await store.load(run.thread_id)).aggregate.thread.active_run_id
    return None if active == run.id else active


def ref_of(view: RunView) -> RunRef:
    """Where the run is."""
    return RunRef(view.run.thread_id, view.run.id)
