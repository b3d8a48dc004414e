"""The life of a run: nine statuses, ten triggers, one table.

Theory of operation
-------------------
A run is a persisted state machine. Nobody holds it in memory: a process loads it, decides on one
command, commits the result together with the revision it saw, and forgets it. Whoever comes next,
on any host, goes on from what was committed.

Three statuses wait for somebody, and each wait has its own timer, so that none of them can last:

* ``queued`` waits for an engine, ``in_progress`` for the engine that took the turn (its lease),
  ``requires_action`` for tool outputs from workers or from the client (the lease of each call).
* Over all three hangs the deadline of the run, ten minutes after its creation. It is never moved.
* ``cancelling`` waits for an engine to let go of a model call, and has a watchdog of its own.

The other five statuses are final: nothing leads out of them, and the step that enters one also
closes what the run left open (calls, steps, a half-written message) and frees the thread.

``TABLE`` is the only place that says which trigger is legal in which status. ``transitions`` reads
it into one shared ``Machine`` for the documents and the tests; ``decide`` uses the plain lookup
``LEGAL`` made from the same machine (a dictionary look-up costs a hundredth of a trigger call, and
a machine keeps every model ever added to it alive).
"""

from enum import StrEnum
from typing import Final

from transitions import Machine

from orchestrator.errors import IllegalTransition


class RunStatus(StrEnum):
    """Where a run is. Each paragraph: who puts it there, what takes it out, what a crash leaves."""

    QUEUED = "queued"
    """A turn is due and no engine has it yet.

    Put there by the creation of the run, by the last missing tool output, and by the loss of an
    engine in mid-turn. An engine's ``start_turn`` takes it out. The entry on the ready stream was
    written in the same step, so a crash of every process leaves the run queued and findable.
    """

    IN_PROGRESS = "in_progress"
    """An engine is talking to the model.

    Put there by ``start_turn``. The engine's result, a cancel, or the deadline takes it out. If the
    engine dies, its lease runs out and the turn is queued again under a new generation; what the
    dead engine still sends is refused.
    """

    REQUIRES_ACTION = "requires_action"
    """The model asked for tools, and at least one output is missing.

    Put there by a turn that ended in calls. The last output takes it out. Outputs that have arrived
    are already in the transcript, so a crash loses none of them.
    """

    CANCELLING = "cancelling"
    """Cancel was asked for while an engine was talking to the model.

    The engine confirms within a second; if it is gone, the watchdog confirms. An answer that was
    committed first wins: cancelling is a request, not a promise. A failed model call does not.
    """

    CANCELLED = "cancelled"
    """Final. Ended by request; calls still out are stopped, late outputs are only recorded."""

    FAILED = "failed"
    """Final. ``last_error`` says why: the model failed, or a cap of the run was reached."""

    COMPLETED = "completed"
    """Final. The model gave its answer, and the answer is in the transcript."""

    INCOMPLETE = "incomplete"
    """Final. A token limit ended the run; ``incomplete_reason`` says which one."""

    EXPIRED = "expired"
    """Final. The deadline passed. Any engine, and any read through the API, puts a run here."""


class Trigger(StrEnum):
    """What can happen to a run."""

    START_TURN = "start_turn"
    REQUIRE_TOOLS = "require_tools"
    OUTPUTS_COMPLETE = "outputs_complete"
    COMPLETE = "complete"
    RUN_OUT = "run_out"
    FAIL = "fail"
    CANCEL = "cancel"
    CONFIRM_CANCEL = "confirm_cancel"
    EXPIRE = "expire"
    REQUEUE_TURN = "requeue_turn"


S, T = RunStatus, Trigger

TABLE: Final = (
    {"trigger": T.START_TURN, "source": [S.QUEUED], "dest": S.IN_PROGRESS},
    {"trigger": T.REQUIRE_TOOLS, "source": [S.IN_PROGRESS], "dest": S.REQUIRES_ACTION},
    {"trigger": T.OUTPUTS_COMPLETE, "source": [S.REQUIRES_ACTION], "dest": S.QUEUED},
    {"trigger": T.COMPLETE, "source": [S.IN_PROGRESS, S.CANCELLING], "dest": S.COMPLETED},
    {"trigger": T.RUN_OUT, "source": [S.IN_PROGRESS, S.CANCELLING], "dest": S.INCOMPLETE},
    {
        "trigger": T.FAIL,
        "source": [S.QUEUED, S.IN_PROGRESS, S.REQUIRES_ACTION, S.CANCELLING],
        "dest": S.FAILED,
    },
    {"trigger": T.CANCEL, "source": [S.IN_PROGRESS], "dest": S.CANCELLING},
    {"trigger": T.CANCEL, "source": [S.QUEUED, S.REQUIRES_ACTION], "dest": S.CANCELLED},
    {"trigger": T.CONFIRM_CANCEL, "source": [S.CANCELLING], "dest": S.CANCELLED},
    {
        "trigger": T.EXPIRE,
        "source": [S.QUEUED, S.IN_PROGRESS, S.REQUIRES_ACTION],
        "dest": S.EXPIRED,
    },
    {"trigger": T.EXPIRE, "source": [S.CANCELLING], "dest": S.CANCELLED},
    {"trigger": T.REQUEUE_TURN, "source": [S.IN_PROGRESS], "dest": S.QUEUED},
)

MACHINE: Final = Machine(
    model=None,
    states=RunStatus,
    transitions=list(TABLE),
    initial=RunStatus.QUEUED,
    auto_transitions=False,
)


def _lookup(machine: Machine) -> dict[tuple[RunStatus, Trigger], RunStatus]:
    """The machine's edges as a dictionary; each (status, trigger) has exactly one target."""
    found: dict[tuple[RunStatus, Trigger], RunStatus] = {}
    for name, event in machine.events.items():
        for source, edges in event.transitions.items():
            (edge,) = edges
            found[RunStatus[source], Trigger(name)] = RunStatus[str(edge.dest)]
    return found


LEGAL: Final = _lookup(MACHINE)

FINAL: Final = frozenset(RunStatus) - {source for source, _ in LEGAL}


def is_final(status: RunStatus) -> bool:
    """Whether nothing leads out of this status."""
    return status in FINAL


def next_status(status: RunStatus, trigger: Trigger) -> RunStatus:
    """The status that the trigger leads to; ``IllegalTransition`` where the table has no edge."""
    target = LEGAL.get((status, trigger))
    if target is None:
        raise IllegalTransition(status, trigger)
    return target


def diagram() -> str:
    """The table as a Mermaid state diagram, in its own order (ARCHITECTURE.md shows it)."""
    lines = ["stateDiagram-v2", "    [*] --> queued"]
    lines += [
        f"    {source} --> {row['dest']}: {row['trigger']}"
        for row in TABLE
        for source in row["source"]
    ]
    lines += [f"    {status} --> [*]" for status in RunStatus if status in FINAL]
    return "\n".join(lines)
