"""What the rest of the system may ask of a store. ``storage/valkey.py`` is the implementation.

A store keeps documents and commits decisions; it knows no rule of the life-cycle. All that one
decision changes is written in one atomic step under the revisions that were loaded. Every method
may raise ``StoreUnavailable``; after it, a write may have happened.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from orchestrator.decisions import Decision, Event, SendCall, StopCall, TimerKey
from orchestrator.receipts import Filed, Remember
from orchestrator.records import (
    Aggregate,
    Assistant,
    Entry,
    Message,
    Run,
    RunSpec,
    Step,
    Tally,
    Thread,
    ToolCall,
    ToolSpec,
)
from orchestrator.states import RunStatus
from orchestrator.turn_record import TurnRecord

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Loaded:
    """An aggregate as it was at ``now_ms`` of the store's clock, with the revisions to guard.

    Revision 0 means: does not exist yet.
    """

    aggregate: Aggregate
    now_ms: int
    thread_revision: int
    run_revision: int = 0


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as readers need it: one round trip, no transcript."""

    run: Run
    spec: RunSpec
    steps: tuple[Step, ...]
    calls: tuple[ToolCall, ...]
    now_ms: int


@dataclass(frozen=True, slots=True)
class PageQuery:
    """Which part of a list. ``after``/``before`` are ids of the list; both are exclusive."""

    limit: int = 20
    order: Literal["asc", "desc"] = "desc"
    after: str | None = None
    before: str | None = None


@dataclass(frozen=True, slots=True)
class Page(Generic[T]):
    """Items in the asked order; ``has_more``: there are more in the direction of the walk."""

    items: tuple[T, ...]
    has_more: bool


@dataclass(frozen=True, slots=True)
class RunRef:
    """Where a run is: its thread decides the partition."""

    thread_id: str
    run_id: str


@dataclass(frozen=True, slots=True)
class DueTimer:
    """A timer whose time has come. It stays set, postponed to ``until_ms``, until a commit clears
    it.
    """

    ref: RunRef
    key: TimerKey
    at_ms: int
    until_ms: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Ticket:
    """An entry of a ready stream or an outbox, to be acknowledged when its work is done."""

    partition: int
    entry_id: str


@dataclass(frozen=True, slots=True)
class DueTurn:
    """A run whose turn is due."""

    ref: RunRef
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Parcel:
    """Something on the outbox: a call to send to its queue, or one to stop."""

    ref: RunRef
    order: SendCall | StopCall
    ticket: Ticket


@dataclass(frozen=True, slots=True)
class Ring:
    """One stroke of the doorbell: this run was committed. ``ref`` is ``None`` after a reconnect,
    when strokes may have been missed: look at everything. ``status`` is the run's own after the
    commit.
    """

    ref: RunRef | None
    status: str | None = None
    has_turn: bool = False
    has_parcel: bool = False


@dataclass(frozen=True, slots=True)
class Presence:
    """A process that is alive: an engine or a worker."""

    kind: Literal["engine", "worker"]
    id: str
    info: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UsageLine:
    """What a tenant used of a model on a day of UTC (``2026-11-30``); ``None``: of all time."""

    day: str | None
    tenant: str
    model: str
    tally: Tally


@dataclass(frozen=True, slots=True)
class Census:
    """How many runs are under way, by the status that clients see, and how many timers should have
    been found by an engine and were not.
    """

    active: Mapping[RunStatus, int]
    overdue_timers: int


class Store(Protocol):
    """See the module's docstring. "One round trip" counts a pipeline as one."""

    # -- whose it is ------------------------------------------------------------------------------

    def seen_by(self, tenant: str) -> "Store":
        """The same store as one tenant sees it: of what belongs to others nothing is there, and
        what is made belongs to the tenant.

        What is in a thread is there if the thread is: ``load``, ``view``, ``find_run`` and
        ``get_message`` look whose it is, for one round trip more, and whoever reads a list, a log,
        turns or outputs of a thread has come by one of them.
        """
        ...

    # -- aggregates: load, decide, commit ---------------------------------------------------------

    async def load(self, thread_id: str, run_id: str | None = None) -> Loaded:
        """The thread, and the run if one is named, with the clock. One round trip.

        Raises ``NotFound`` for the thread, and for a run that is not of this thread.
        """
        ...

    async def load_active(self, thread_id: str) -> Loaded:
        """As ``load``, with the thread's active run if it has one (then two round trips)."""
        ...

    async def fresh(self, thread: Thread) -> Loaded:
        """A thread that is yet to be written by a commit (``created_ms`` 0 becomes now)."""
        ...

    async def commit(self, loaded: Loaded, decision: Decision) -> None:
        """Write everything of the decision, or nothing. One round trip.

        Raises ``StaleRevision`` when a revision has changed since ``loaded``. A commit whose answer
        was lost is repeated inside under the same nonce, so that it counts once.
        """
        ...

    async def say(self, ref: RunRef, generation: int, events: Sequence[Event], text: str) -> bool:
        """Log what the model says while it says it, and add ``text`` to its open message.

        One round trip. False, and nothing written, when the turn is no longer this generation's.
        Not repeated inside: after ``StoreUnavailable`` the words may be there or not.
        """
        ...

    async def keep_turn(self, ref: RunRef, record: TurnRecord) -> bool:
        """Write down what a turn is about to be sent, in the place of what was known of it before.

        One round trip. False, and nothing written, when it is no longer this generation's.
        """
        ...

    # -- reading ----------------------------------------------------------------------------------

    async def view(self, ref: RunRef) -> RunView:
        """A run for readers. One round trip. Raises ``NotFound`` (thread or run)."""
        ...

    async def list_runs(self, thread_id: str, query: PageQuery) -> Page[RunView]:
        """Runs of a thread by creation."""
        ...

    async def recent_runs(self, query: PageQuery) -> Page[RunView]:
        """Runs of all threads by creation (for operators)."""
        ...

    async def find_run(self, run_id: str) -> RunRef:
        """The thread of a run, by looking into every partition (for operators)."""
        ...

    async def read_entries(self, thread_id: str) -> tuple[Entry, ...]:
        """The whole transcript, in order."""
        ...

    async def read_outputs(self, thread_id: str, seqs: Sequence[int]) -> Mapping[str, str]:
        """The texts of these output entries, by call id."""
        ...

    async def read_full_output(self, ref: RunRef, call_id: str) -> str | None:
        """The whole of an output that the model was shown in part; ``None`` if none was kept."""
        ...

    async def read_turns(self, ref: RunRef) -> tuple[TurnRecord, ...]:
        """What the run's model turns were sent and what came of it, in order."""
        ...

    async def read_events(
        self, ref: RunRef, after: str = "0", limit: int | None = None, *, has_deltas: bool = True
    ) -> tuple[tuple[str, Event], ...]:
        """The run's log after an event id, oldest first, with ids; at most ``limit`` events.

        ``has_deltas`` false: without the pieces of what the model said, most of a long log.
        """
        ...

    async def read_usage(self, days: Sequence[str] | None = None) -> tuple[UsageLine, ...]:
        """What was used on these days (kept for 400), or of all time, in order of day, tenant and
        model.
        """
        ...

    async def census(self) -> Census:
        """What is under way in the whole installation, in numbers."""
        ...

    # -- threads and messages ---------------------------------------------------------------------

    async def list_threads(self, query: PageQuery) -> Page[Thread]:
        """Threads by creation."""
        ...

    async def modify_thread(
        self, thread_id: str, changes: Mapping[str, object], remember: Remember | None = None
    ) -> Thread:
        """Replace ``metadata`` and/or ``tool_resources``. Raises, as all that take a receipt to
        write, ``StaleRevision`` when something else was filed under its name.
        """
        ...

    async def clear_thread(self, thread_id: str) -> None:
        """Remove what is left of a deleted thread. Harmless to repeat, and to break off, and if the
        thread is there.
        """
        ...

    async def list_messages(
        self, thread_id: str, query: PageQuery, run_id: str | None = None
    ) -> Page[Message]:
        """Messages in the order of the transcript, of one run if asked."""
        ...

    async def get_message(self, thread_id: str, message_id: str) -> Message:
        """One message. Raises ``NotFound``."""
        ...

    async def modify_message(
        self,
        thread_id: str,
        message_id: str,
        changes: Mapping[str, object],
        remember: Remember | None = None,
    ) -> Message:
        """Replace ``metadata``."""
        ...

    async def delete_message(
        self, thread_id: str, message_id: str, remember: Remember | None = None
    ) -> None:
        """Take the message out of the transcript."""
        ...

    # -- requests that may come again -------------------------------------------------------------

    async def receipt(self, name: str, thread_id: str | None) -> Filed:
        """What is filed under the name, beside the thread or among the assistants."""
        ...

    async def reserve(self, name: str, thread_id: str, ttl_ms: int, *, is_first: bool) -> str:
        """The id of the thread that all tries of a request make: this one, or that of an earlier
        try if it is certainly of the same request. Not the effect, only an agreement.
        """
        ...

    async def claim_key(self, key: str, request: str, ttl_ms: int) -> str:
        """Which request has the key: this one, or the one that claimed it before."""
        ...

    # -- assistants -------------------------------------------------------------------------------

    async def put_assistant(self, assistant: Assistant, remember: Remember | None = None) -> None:
        """Write a new assistant. Raises ``StaleRevision`` also if it exists."""
        ...

    async def modify_assistant(
        self, assistant_id: str, changes: Mapping[str, object], remember: Remember | None = None
    ) -> Assistant:
        """Replace these fields. Raises ``NotFound``, and ``OperatorsOnly`` to a tenant if it is
        everybody's.
        """
        ...

    async def get_assistant(self, assistant_id: str) -> Assistant:
        """One assistant, also one of ``EVERYBODY``. Raises ``NotFound``."""
        ...

    async def delete_assistant(self, assistant_id: str, remember: Remember | None = None) -> None:
        """Remove it. Runs keep what they copied. Raises ``NotFound`` and ``OperatorsOnly``."""
        ...

    async def list_assistants(self, query: PageQuery) -> Page[Assistant]:
        """Assistants by creation."""
        ...

    # -- work: timers, ready stream, outbox, doorbell ---------------------------------------------

    async def take_due(self, limit: int, hold_ms: int) -> tuple[DueTimer, ...]:
        """Due timers of all partitions, postponed by ``hold_ms`` so that others leave them."""
        ...

    async def drop_timer(self, timer: DueTimer) -> None:
        """Remove a timer that turned out to mean nothing any more, unless it has been set anew
        since it was taken.
        """
        ...

    async def renew(
        self, ref: RunRef, key: TimerKey, lease_ms: int, cap_ms: int | None = None
    ) -> bool:
        """Move a lease to now + ``lease_ms`` (at most ``cap_ms``). False: it is lost to you."""
        ...

    async def take_turns(self, limit: int, idle_ms: int) -> tuple[DueTurn, ...]:
        """Turns that are due, also those taken ``idle_ms`` ago by an engine that never started."""
        ...

    async def take_parcels(self, limit: int, idle_ms: int) -> tuple[Parcel, ...]:
        """What is on the outboxes, in the same manner."""
        ...

    async def finish_turns(self, tickets: Sequence[Ticket]) -> None:
        """These entries of the ready streams are dealt with."""
        ...

    async def finish_parcels(self, tickets: Sequence[Ticket]) -> None:
        """These entries of the outboxes are dealt with."""
        ...

    def rings(self) -> AsyncIterator[Ring]:
        """The doorbell of all partitions, on one subscription, until closed."""
        ...

    # -- presence and tools -----------------------------------------------------------------------

    async def now_ms(self) -> int:
        """The store's clock."""
        ...

    async def beat(self, presence: Presence, ttl_ms: int) -> None:
        """Say that a process is alive."""
        ...

    async def leave(self, kind: Literal["engine", "worker"], process_id: str) -> None:
        """Say that a process ends."""
        ...

    async def present(self, kind: Literal["engine", "worker"]) -> tuple[Presence, ...]:
        """Processes whose last heartbeat has not run out."""
        ...

    async def publish_tools(self, tools: Sequence[ToolSpec], ttl_s: int) -> None:
        """Say that workers serve these tools; forgotten after ``ttl_s`` without a repetition."""
        ...

    async def tools(self, names: Sequence[str] | None = None) -> Mapping[str, ToolSpec]:
        """The published tools, or those of them with these names."""
        ...

    async def take_slot(self, tool: str, holder: str, slots: int, hold_ms: int) -> bool:
        """Take one of the tool's slots, or keep it, for ``hold_ms``. False: all are taken."""
        ...

    async def free_slot(self, tool: str, holder: str) -> None:
        """Give the slot back, if there is one."""
        ...

    async def swap_shape(self, tool: str, shape: str) -> str | None:
        """Note the JSON shape of a tool's output; returns that of its last one."""
        ...

    async def close(self) -> None:
        """Give the connections back."""
        ...


async def served_queues(store: Store) -> frozenset[str]:
    """The queues that live workers listen to. Two round trips."""
    return frozenset(worker.info["queue"] for worker in await store.present("worker"))
