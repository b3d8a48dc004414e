"""The turns that one engine has under way, and the reasons to let go of one."""

import asyncio
from dataclasses import dataclass, field
from enum import StrEnum

from orchestrator.engine.turn import Conclusion, Turn


class LetGo(StrEnum):
    """Why a turn is dropped before its reply is there."""

    CANCELLED = "cancelled"
    """The client asked for it: confirm."""
    LOST = "lost"
    """The run went on without us: say nothing more."""
    STOPPING = "stopping"
    """This engine stops: hand the turn back."""


@dataclass(slots=True)
class HeldTurn:
    """One turn under way; ``asking`` plays it."""

    turn: Turn
    asking: asyncio.Task[Conclusion]
    reason: LetGo | None = field(default=None)

    def let_go(self, reason: LetGo) -> None:
        """Abort the model call; the first reason counts."""
        if self.reason is None and not self.asking.done():
            self.reason = reason
            self.asking.cancel()
