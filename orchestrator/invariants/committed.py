"""One committed step of a run, which the invariants look at."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from orchestrator.decisions import Decision, TimerKey
from orchestrator.records import Aggregate, Entry, Run
from orchestrator.states import RunStatus

TURN_STATUSES: Final = frozenset({RunStatus.IN_PROGRESS, RunStatus.CANCELLING})
"""An engine has the turn."""


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
        return run_of(self.after)

    @property
    def was(self) -> Run | None:
        """The run as it was."""
        return run_of(self.before) if self.before else None


Invariant = Callable[[Committed], str | None]


def run_of(aggregate: Aggregate) -> Run:
    """The run of an aggregate that has one."""
    assert aggregate.run is not None  # noqa: S101 - invariants are about runs
    return aggregate.run
