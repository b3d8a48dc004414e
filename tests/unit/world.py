"""What a store would hold of one thread, for checking: decisions are applied and held against the
invariants. It follows the shell's manner (a due deadline first) and has no rule of its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Self, assert_never

from orchestrator.commands import (
    AddMessages,
    CallLost,
    CheckWait,
    Command,
    ConfirmCancel,
    CreateRun,
    DeleteThread,
    Expire,
    ImportMessage,
    RequeueTurn,
    SendAgain,
    TimeOutApproval,
)
from orchestrator.decide import decide
from orchestrator.decisions import (
    AddRun,
    ClearTimer,
    CountUsage,
    Decision,
    DropEntries,
    Event,
    KeepOutput,
    KeepTurn,
    PutEntry,
    QueueTurn,
    RetireLog,
    SendCall,
    SetTimer,
    StopCall,
    TimerKey,
    TimerKind,
)
from orchestrator.invariants import Committed, violations
from orchestrator.records import Aggregate, Entry, Run, Thread
from orchestrator.states import RunStatus
from orchestrator.turn_record import TurnRecord

PATIENCE_MS: Final = 60_000

Order = QueueTurn | SendCall | StopCall
RunTimer = tuple[str, TimerKey]


@dataclass(frozen=True)
class World:
    """A thread with its runs, transcript and timers. ``orders`` is the work that was asked for, in
    order; ``log`` is what was told of all runs.
    """

    thread: Thread = field(
        default_factory=lambda: Thread(id="thread_1", created_ms=0, tenant="library")
    )
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

    def run(self, run_id: str) -> Run:
        """One of the runs."""
        run = self.runs[run_id].run
        assert run is not None
        return run

    def say(self, run_id: str, words: str) -> Self:
        """The world after words of an open message, which are streamed without asking any rule."""
        said = self.runs[run_id]
        return replace(self, runs={**self.runs, run_id: said.but(partial=said.partial + words)})

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
        if isinstance(command, CreateRun | AddMessages | ImportMessage | DeleteThread):
            run_id = self.thread.active_run_id
        before = self.load(run_id)
        decision = decide(before, command, now_ms)
        world = self._commit(decision)
        if after := decision.aggregate.run:
            is_new = before.run is None or before.run.id != after.id
            timers = {key: at for (run_id, key), at in world.timers.items() if run_id == after.id}
            committed = Committed(None if is_new else before, decision, world.entries, timers)
            assert not violations(committed), violations(committed)
        world.check_that_no_run_is_forgotten()
        return world, decision

    def check_that_no_run_is_forgotten(self) -> None:
        """Otherwise a run would wait for ever, or two would write into the thread at once."""
        waiting = [one.run_id for one in self.thread.waiting if one.run_id]
        active = self.thread.active_run_id
        alive = {run_id for run_id in self.runs if not self.run(run_id).is_final}
        assert alive == {*waiting, *([active] if active else [])}
        assert {self.run(run_id).status for run_id in waiting} <= {RunStatus.QUEUED}
        assert not self.thread.waiting or active
        with_deadline = {run_id for run_id, key in self.timers if key.kind is TimerKind.DEADLINE}
        assert with_deadline == alive

    def _commit(self, decision: Decision) -> Self:
        run = decision.aggregate.run
        run_id = run.id if run else ""
        entries = {entry.seq: entry for entry in self.entries}
        timers, orders = dict(self.timers), list(self.orders)
        runs, log = dict(self.runs), [*self.log, *decision.events]
        if run:
            runs[run_id] = decision.aggregate
        for effect in decision.effects:
            match effect:
                case PutEntry():
                    entries[effect.entry.seq] = effect.entry
                case SetTimer():
                    owner = run_id if effect.run_id is None else effect.run_id
                    timers[owner, effect.key] = effect.at_ms
                case ClearTimer():
                    timers.pop((run_id, effect.key), None)
                case QueueTurn():
                    orders.append((effect.run_id or run_id, QueueTurn()))
                case SendCall() | StopCall():
                    orders.append((run_id, effect))
                case DropEntries():
                    for seq in range(effect.from_seq, effect.until_seq):
                        entries.pop(seq, None)
                case AddRun():
                    thread = decision.aggregate.thread
                    added = Aggregate(thread=thread, run=effect.run, spec=effect.spec)
                    runs[effect.run.id] = added
                    log += effect.events
                case KeepOutput() | KeepTurn() | CountUsage() | RetireLog():
                    pass
                case _:
                    assert_never(effect)
        return replace(
            self,
            thread=decision.aggregate.thread,
            runs=runs,
            entries=tuple(entries.values()),
            timers=timers,
            orders=tuple(orders),
            log=tuple(log),
        )


def a_record(run: Run, generation: int) -> TurnRecord:
    """What whoever has the turn of this generation, or believes so, knows of it."""
    return TurnRecord(
        turn=run.turns,
        generation=generation,
        api="scripted",
        model="scripted/none",
        tool_choice="auto",
        max_completion_tokens=None,
        max_output_tokens=1_000,
    )


def due_command(key: TimerKey) -> Command:  # noqa: PLR0911 - a kind per timer
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
        case TimerKind.CALL_RETRY:
            return SendAgain(key.call_id or "", key.generation)
        case TimerKind.CALL_WAIT:
            return CheckWait(key.call_id or "", key.generation, frozenset(), PATIENCE_MS)
        case TimerKind.CALL_APPROVAL:
            return TimeOutApproval(key.call_id or "")
        case TimerKind.DELETION:
            raise AssertionError(key)
