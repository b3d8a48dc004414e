"""Taking work from all partitions, fairly and not more than was asked for."""

from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from orchestrator.storage.access import Access
from orchestrator.storage.keys import Keys, Partition
from orchestrator.storage.pipelining import Pipeliner

T = TypeVar("T")


class Rounds(Access):
    """A part of the store that asks every partition."""

    def __init__(self, pipeliner: Pipeliner, keys: Keys, retention_ms: int) -> None:
        super().__init__(pipeliner, keys, retention_ms)
        self._order = deque(keys.partitions)

    async def take(
        self, limit: int, ask: Callable[[Sequence[Partition], int], Awaitable[list[list[T]]]]
    ) -> tuple[T, ...]:
        """``limit`` things, or all that are there. ``ask(partitions, share)`` finds up to
        ``share`` in each of the partitions.

        One round, if the limit is at least the number of partitions and none of them holds more
        than its share. Every call begins with another partition, so that none is always last.
        """
        self._order.rotate(-1)
        waiting = list(self._order)
        taken: list[T] = []
        while waiting and (room := limit - len(taken)) > 0:
            asked, waiting = waiting[:room], waiting[room:]
            share = room // len(asked)
            for partition, found in zip(asked, await ask(asked, share), strict=True):
                taken += found
                if len(found) == share:
                    waiting.append(partition)
        return tuple(taken)
