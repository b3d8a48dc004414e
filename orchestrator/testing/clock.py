"""A store whose clock a test can move: the server's time, and as much more as the test lets pass.

Everything that reads the time asks the server (``TIME``): the store, and its scripts on the server.
So it is moved on the way there, for both alike, and all else is the store of production.
"""

from collections.abc import Iterable
from typing import Any, Final

from redis.asyncio import Redis

from orchestrator.storage.pipelining import Command, Pipeliner
from orchestrator.storage.scripts import SCRIPTS
from orchestrator.storage.timers import read_timers
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import DueTimer

PARTITIONS: Final = 1

_ASKS_TIME: Final = "redis.call('TIME')"
_TEXTS: Final = {script.sha: script.text for script in SCRIPTS if _ASKS_TIME in script.text}


class Clock:
    """``ahead_ms``: how much has passed that nobody had to wait for. ``is_stepped``: engines leave
    the timers to whoever moves the clock.
    """

    def __init__(self) -> None:
        self.ahead_ms = 0
        self.is_stepped = False


class ClockedStore(ValkeyStore):
    """A store of one partition that reads this clock."""

    def __init__(self, client: Redis, prefix: str, clock: Clock) -> None:
        super().__init__(client, prefix, PARTITIONS)
        self.clock = clock
        self.pipeliner = _Pipeliner(client, clock)

    async def move_to(self, at_ms: int) -> None:
        """Let the time pass until then, if it has not."""
        self.clock.ahead_ms += max(0, at_ms - await self.now_ms())

    async def take_due(self, limit: int, hold_ms: int) -> tuple[DueTimer, ...]:
        """As usual, unless somebody steps from timer to timer."""
        return () if self.clock.is_stepped else await super().take_due(limit, hold_ms)

    async def next_timer(self) -> DueTimer | None:
        """The timer that is due first."""
        (home,) = self.keys.partitions
        found = await self.pipeliner.call("ZRANGE", home.timers, 0, 0, "WITHSCORES")
        return next(iter(read_timers(found)), None)


class _Pipeliner(Pipeliner):
    def __init__(self, client: Redis, clock: Clock) -> None:
        super().__init__(client, [script.text for script in SCRIPTS])
        self._clock = clock

    async def group(self, commands: Iterable[Command]) -> list[Any]:
        asked = [self._moved(command) for command in commands]
        replies = await super().group(asked)
        return [
            [reply[0], int(reply[1]) + self._ahead_us] if command == ("TIME",) else reply
            for command, reply in zip(asked, replies, strict=True)
        ]

    @property
    def _ahead_us(self) -> int:
        return self._clock.ahead_ms * 1000

    def _moved(self, command: Command) -> Command:
        """The same command; a script that asks for the time is sent as one that adds to it."""
        text = _TEXTS.get(str(command[1])) if command[0] == "EVALSHA" else None
        if text is None:
            return command
        moved = f"(function(time) return {{time[1], time[2] + {self._ahead_us}}} end)({_ASKS_TIME})"
        return ("EVAL", text.replace(_ASKS_TIME, moved), *command[2:])
