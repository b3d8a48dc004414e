"""What a store would hold of one thread, for checking: decisions are applied and held against the
invariants. It follows the shell's manner (a due deadline first) and has no rule of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from orchestrator.commands import (
    AddMessages,
    CallLost,
    Command,
    ConfirmCancel,
    CreateRun,
    Expire,
    RequeueTurn,
)
from orchestrator.decide import decide
from orchestrator.decisions import (
    AppendEntry,
    ClearTimer,
    Decision,
    Event,
    QueueTurn,
    SendCall,
    SetTimer,
    StopCall,
    TimerKey,
    TimerKind,
)
from orchestrator.invariants import Committed, violations
from orchestrator.records import Aggregate, Entry, Thread

Order = QueueTurn | SendCall | StopCall
RunTimer = tuple[str, TimerKey]


@dataclass(frozen=True)
class World:
    """A thread with its runs, transcript and timers. ``orders`` is the work that was asked for, in
    order; ``log`` is what was told of all runs.
    """

    thread: Thread = field(default_factory=lambda: Thread(id="thread_1", created_ms=0))
    runs: Mapping[str, Aggregate] = field(default_factory=dict)
    entries: tuple[Entry, ...] = ()
    timers: Mapping[RunTimer, int] = field(default_factory=dict)
    orders: tuple[tuple[str, Order], ...] = ()
    log: tuple[Event, ...] = ()

    def load(self, run_id: str | None) -> Aggregate:
        """The thread as it is now, with one of its runs or none."""
        return (
            self.runs[run_id].but(thread=self.thread) if run_id else Aggregate(thread=self.thread)
        )

    def pass_deadline(self, run_id: str | None, now_ms: int) -> Self:
        """The world after a look at the clock: an overdue run has expired."""
        run = self.load(run_id).run
        if run is None or run.is_final or now_ms < run.deadline_ms:
            return self
        return self.ask(Expire(), now_ms, run_id)[0]

    def ask(self, command: Command, now_ms: int, run_id: str | None) -> tuple[Self, Decision]:
        """The world after a command to a run, and what was decided; raises what ``decide`` raises.

        Commands to the thread as such go to its active run.
        """
        if isinstance(command, CreateRun | AddMessages):
            run_id = self.thread.active_run_id
        before = self.load(run_id)
        decision = decide(before, command, now_ms)
        world = self._commit(decision)
        if after := decision.aggregate.run:
            is_new = before.run is None or before.run.id != after.id
            timers = {key: at for (run_id, key), at in world.timers.items() if run_id == after.id}
            committed = Committed(None if is_new else before, decision, world.entries, timers)
            assert not violations(committed), violations(committed)
        return world, decision

    def _commit(self, decision: Decision) -> Self:
        run = decision.aggregate.run
        run_id = run.id if run else ""
        entries, timers, orders = list(self.entries), dict(self.timers), list(self.orders)
        for effect in decision.effects:
            match effect:
                case AppendEntry():
                    entries.append(effect.entry)
                case SetTimer():
                    timers[run_id, effect.key] = effect.at_ms
                case ClearTimer():
                    timers.pop((run_id, effect.key), None)
                case QueueTurn() | SendCall() | StopCall():
                    orders.append((run_id, effect))
        runs = {**self.runs, run_id: decision.aggregate} if run else self.runs
        return replace(
            self,
            thread=decision.aggregate.thread,
            runs=runs,
            entries=tuple(entries),
            timers=timers,
            orders=tuple(orders),
            log=(*self.log, *decision.events),
        )


def due_command(key: TimerKey) -> Command:
    """What whoever finds this timer due asks for."""
    match key.kind:
        case TimerKind.DEADLINE:
            return Expire()
        case TimerKind.CANCEL_WATCHDOG:
            return ConfirmCancel()
        case TimerKind.TURN_LEASE:
            return RequeueTurn(key.generation)
        case TimerKind.CALL_LEASE:
            return CallLost(key.call_id or "", key.generation, "its worker is silent")
