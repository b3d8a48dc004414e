"""A decision in the making: the aggregate so far, and what has been said of it.

The rules call these few verbs; events are written here and nowhere else, so that no change can go
untold.
"""

from typing import Any

from orchestrator.decisions import (
    AddRun,
    Decision,
    Effect,
    Event,
    EventType,
    PutEntry,
    SetTimer,
    TimerKey,
)
from orchestrator.projection import public_status, required_calls
from orchestrator.records import (
    Aggregate,
    Entry,
    Firing,
    Json,
    Message,
    Run,
    RunSpec,
    Step,
    ToolCall,
)
from orchestrator.states import Trigger, next_status


class Draft:
    """Used for one command and thrown away. ``now_ms`` never lies before the run's last change."""

    def __init__(self, aggregate: Aggregate, now_ms: int) -> None:
        self.aggregate = aggregate
        self.now_ms = max(now_ms, aggregate.run.updated_ms) if aggregate.run else now_ms
        self._events: list[Event] = []
        self._effects: list[Effect] = []

    def decision(self) -> Decision:
        """What has been decided."""
        return Decision(self.aggregate, tuple(self._events), tuple(self._effects))

    # -- reading -----------------------------------------------------------------------------------

    @property
    def run(self) -> Run:
        """The run. Commands on a run are only ever loaded with one."""
        assert self.aggregate.run is not None  # noqa: S101
        return self.aggregate.run

    @property
    def spec(self) -> RunSpec:
        """What the run was asked to do."""
        assert self.aggregate.spec is not None  # noqa: S101
        return self.aggregate.spec

    # -- writing -----------------------------------------------------------------------------------

    def set_thread(self, **changes: Any) -> None:
        """Change the thread's lock or tail."""
        self.aggregate = self.aggregate.but(thread=self.aggregate.thread.but(**changes))

    def add_run(self, run: Run, spec: RunSpec) -> None:
        """Bring a new run in; the thread is its own from now on."""
        self.aggregate = self.aggregate.but(run=run, spec=spec, steps=(), calls=())
        self.set_thread(active_run_id=run.id)
        self.tell_run(EventType.RUN_CREATED)
        self.tell_run(EventType.RUN_QUEUED)

    def add_waiting_run(self, run: Run, spec: RunSpec) -> None:
        """Bring a run in that has to wait; the draft's run stays the one that commands are for."""
        created, queued = (
            Event(
                type=told, at_ms=self.now_ms, status=run.status, public_status=run.status, run=run
            )
            for told in (EventType.RUN_CREATED, EventType.RUN_QUEUED)
        )
        self.ask(AddRun(run, spec, (created, queued)))

    def set_run(self, **changes: Any) -> None:
        """Change the run, but not its status; without changes, only the time of its last one."""
        self.aggregate = self.aggregate.but(run=self.run.but(updated_ms=self.now_ms, **changes))

    def move(self, trigger: Trigger, **changes: Any) -> None:
        """Take the run along an edge of the table, and tell it."""
        status = next_status(self.run.status, trigger)
        self.set_run(status=status, **changes)
        self.tell_run(EventType(f"run.{status}"))

    def put_step(self, step: Step, event: EventType | None) -> None:
        """Add a step, or replace the one with its index, and tell it if there is something new."""
        self.set_run()
        steps = self.aggregate.steps
        self.aggregate = self.aggregate.but(
            steps=(*steps[: step.index], step, *steps[step.index + 1 :])
        )
        if event is not None:
            calls = tuple(call for call in self.aggregate.calls if call.step_id == step.id)
            self._tell(event, step=step, calls=calls)

    def put_call(self, call: ToolCall, event: EventType, detail: str | None = None) -> None:
        """Add a call, or replace the one with its id, and tell it."""
        self.set_run()
        others = self.aggregate.calls
        if any(other.id == call.id for other in others):
            calls = tuple(call if other.id == call.id else other for other in others)
        else:
            calls = (*others, call)
        self.aggregate = self.aggregate.but(calls=calls)
        self._tell(event, call=call, detail=detail)

    def append(self, entry: Entry) -> int:
        """Put an entry at the end of the transcript; returns its place."""
        seq = self.aggregate.thread.next_seq
        self._effects.append(PutEntry(entry.but(seq=seq)))
        self.set_thread(next_seq=seq + 1)
        return seq

    def restore(self, entry: Entry) -> None:
        """Put an entry of another thread at the place that it had there."""
        if isinstance(entry, Message):
            entry = entry.but(thread_id=self.aggregate.thread.id)
        self.ask(PutEntry(entry))
        self.set_thread(next_seq=entry.seq + 1)

    def ask(self, *effects: Effect) -> None:
        """Ask for effects, to be written in the same step."""
        self._effects += effects

    def set_timer(self, key: TimerKey, at_ms: int) -> None:
        """Set a timer; none ever lies past the run's deadline, which has one of its own."""
        self.ask(SetTimer(key, min(at_ms, self.run.deadline_ms)))

    # -- telling -----------------------------------------------------------------------------------

    def tell_run(self, event: EventType, detail: str | None = None) -> None:
        """Tell something about the run as a whole."""
        calls = required_calls(self.run, self.aggregate.calls)
        self._tell(event, run=self.run, calls=calls, detail=detail)

    def tell_message(self, event: EventType, message: Message) -> None:
        """Tell how far a message of the run is."""
        self._tell(event, message=message)

    def tell_delta(self, event: EventType, delta: Json) -> None:
        """Tell a piece of what the model says (see ``Event``)."""
        self._tell(event, delta=delta)

    def tell_guard(self, firing: Firing) -> None:
        """Tell that a guardrail did not let something pass."""
        self._tell(EventType.GUARD_FIRED, detail=firing.sentence)

    def _tell(self, event: EventType, **documents: Any) -> None:
        self._events.append(
            Event(
                type=event,
                at_ms=self.now_ms,
                status=self.run.status,
                public_status=public_status(self.run, self.aggregate.calls),
                **documents,
            )
        )
