"""What a worker gives its jobs."""

from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from orchestrator.ledger import WorkerLedger
from orchestrator.loading import Tools
from orchestrator.settings import Settings

PATIENCE_S: Final = 1.0
"""After a call's clean-up: its tool should have ended by itself, and is not waited for any more."""

MARGIN_S: Final = 3.0
"""After a call's clean-up its lease ends: its worker, which looks every second, has answered."""


@dataclass(frozen=True, slots=True)
class Bench:
    """What a worker gives its jobs: they are told ids, and find everything else here.

    ``open_ledger`` makes the ledger ready for use; ``connect_ledger`` relies on somebody else
    having done so, which saves a child some 7 ms.
    """

    worker: str
    tools: Tools
    settings: Settings
    open_ledger: Callable[[Settings], Awaitable[WorkerLedger]]
    connect_ledger: Callable[[Settings], WorkerLedger]

    @property
    def lease_ms(self) -> int:
        """How long a worker may be silent about a call."""
        return round(self.settings.call_lease_s * 1000)

    def slots(self, tool: str) -> int | None:
        """How many executions of the tool there may be at once, if that is limited."""
        found = self.tools.get(tool)
        return found.spec.max_concurrency if found else None

    def cleanup_s(self, tool: str | None) -> float:
        """How long the tool may take to end; for a call that is not known yet, the longest."""
        if found := self.tools.get(tool or ""):
            return found.spec.cleanup_s
        return max(tool.spec.cleanup_s for tool in self.tools.values())

    def patience_s(self, tool: str) -> float:
        """So long after its deadline a call's tool is waited for."""
        return self.cleanup_s(tool) + PATIENCE_S

    def grace_s(self, tool: str) -> float:
        """So long after its deadline a call may still be answered by its worker."""
        return self.cleanup_s(tool) + MARGIN_S


BENCH: Final = ContextVar[Bench]("bench")
"""Set by the worker before its first job; forked children inherit it."""
