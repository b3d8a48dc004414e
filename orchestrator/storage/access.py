"""What the parts of the store share: the pipeliner, the keys, and the one way to write."""

import asyncio
import secrets
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from orchestrator.errors import StaleRevision, StoreUnavailable
from orchestrator.storage.keys import Keys, Reader, readers_of
from orchestrator.storage.pipelining import Argument, Command, Pipeliner
from orchestrator.storage.scripts import COMMIT

T = TypeVar("T")

REPEAT_FOR_S: Final = 5.0
"""A write whose answer was lost is repeated for so long: a restart of the store takes less."""

REPEAT_AFTER_S: Final = 0.02
MAX_PAUSE_S: Final = 0.5
"""The pause before the first repetition is doubled for each one, up to this."""

ATTEMPTS: Final = 100
"""Each lost race means that somebody else made progress, so this many in a row is a fault."""


@dataclass(frozen=True, slots=True)
class Guard:
    """A hash that must have this revision; 0: must not exist."""

    key: str
    revision: int


class Access:
    """A part of the store. Writes of documents go through ``write``, with no exception; only what
    nobody can read any more is removed without. ``reader``: as whose list it shows what there is.
    """

    def __init__(self, pipeliner: Pipeliner, keys: Keys, retention_ms: int) -> None:
        self.pipeliner = pipeliner
        self.keys = keys
        self.retention_ms = retention_ms
        self.reader: Reader = None

    def sees(self, tenant: str) -> bool:
        """Whether what belongs to the tenant is there for this reader."""
        return self.reader in readers_of(tenant)

    async def now_ms(self) -> int:
        """The store's clock. One round trip."""
        return read_time(await self.pipeliner.call("TIME"))

    async def write(self, guards: Sequence[Guard], writes: Iterable[Command]) -> None:
        """Write everything, or nothing. One round trip.

        Each write is (command, key, arguments); all keys are of one partition. The last guard's
        hash keeps the nonce, so that a repetition after a lost answer counts once. Raises
        ``StaleRevision`` when a guard has another revision, ``StoreUnavailable`` when the store
        did not answer for ``REPEAT_FOR_S``.
        """
        command = COMMIT.call(*_commit_arguments(secrets.token_urlsafe(9), guards, writes))
        try:
            stale = await self.pipeliner.call(*command)
        except StoreUnavailable:
            stale = await self._repeat(command)
        if stale:
            raise StaleRevision(guards[stale - 1].key)

    async def _repeat(self, command: Command) -> int:
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + REPEAT_FOR_S
        pause_s = REPEAT_AFTER_S
        while True:
            await asyncio.sleep(pause_s)
            try:
                stale: int = await self.pipeliner.call(*command)
            except StoreUnavailable:
                if clock() > give_up_at:
                    raise
            else:
                return stale
            pause_s = min(pause_s * 2, MAX_PAUSE_S)


def read_time(reply: Sequence[bytes]) -> int:
    """The reply of ``TIME`` in milliseconds."""
    seconds, microseconds = reply
    return int(seconds) * 1000 + int(microseconds) // 1000


async def until_fresh(attempt: Callable[[], Awaitable[T]], but_for: Sequence[Guard] = ()) -> T:
    """Load, change and write again until nobody else came between. A guard that is not loaded
    again is named in ``but_for``.
    """
    for _ in range(ATTEMPTS - 1):
        try:
            return await attempt()
        except StaleRevision as stale:
            if any(guard.key == stale.key for guard in but_for):
                raise
    return await attempt()


def _commit_arguments(
    nonce: str, guards: Sequence[Guard], writes: Iterable[Command]
) -> tuple[list[str], list[Argument]]:
    places = {guard.key: place for place, guard in enumerate(guards, 1)}
    arguments: list[Argument] = [nonce, len(guards), *(guard.revision for guard in guards)]
    for write in writes:
        place = places.setdefault(str(write[1]), len(places) + 1)
        arguments += (len(write), write[0], place)
        arguments += write[2:]
    return list(places), arguments
