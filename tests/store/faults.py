"""Calls to the server that fail, before or after they had an effect."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from orchestrator.errors import StoreUnavailable
from orchestrator.storage.pipelining import Command, Pipeliner
from orchestrator.storage.valkey import ValkeyStore


async def nothing() -> None:
    """What happens between a fault and its repetition, unless the test says otherwise."""


class Faulty(Pipeliner):
    """The store's own pipeliner, but the call number ``fail_at`` (counted from 1) is lost.

    It takes the place of the store's at once. ``after`` says that the call was executed and only
    its answer is lost; ``meanwhile`` runs before the caller hears of it.
    """

    def __init__(
        self,
        store: ValkeyStore,
        fail_at: int,
        *,
        after: bool,
        meanwhile: Callable[[], Awaitable[object]] = nothing,
    ) -> None:
        self._inner = store.pipeliner
        self._fail_at = fail_at
        self._after = after
        self._meanwhile = meanwhile
        self.calls = 0
        store.pipeliner = self

    async def group(self, commands: Iterable[Command]) -> list[Any]:
        """As the real one, but for the fault."""
        self.calls += 1
        if self.calls != self._fail_at:
            return await self._inner.group(commands)
        if self._after:
            await self._inner.group(commands)
        await self._meanwhile()
        raise StoreUnavailable("the answer was lost")

    async def close(self) -> None:
        """Close the real one."""
        await self._inner.close()
