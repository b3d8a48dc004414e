"""Who reads which run: one ``RunLog`` for all readers of a run in this process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from api.doorbell import Doorbell
from api.streaming.places import EventKey
from api.streaming.run_log import RunLog
from orchestrator.store import RunView, Store


@dataclass(slots=True)
class _Shared:
    log: RunLog
    following: asyncio.Task[None]
    readers: int = 0


class Readers:
    """The readers of this process. A log goes with its last reader; the run does not notice."""

    def __init__(self, bell: Doorbell, quiet_s: float) -> None:
        self._bell = bell
        self._quiet_s = quiet_s
        self._shared: dict[str, _Shared] = {}

    @asynccontextmanager
    async def reading(self, store: Store, view: RunView, since: EventKey) -> AsyncIterator[RunLog]:
        """The log of the run, to be read from behind ``since``."""
        run_id = view.run.id
        shared = self._shared.get(run_id)
        if shared is None or shared.log.has_failed:
            log = RunLog(store, view, since, self._quiet_s)
            shared = _Shared(log, asyncio.create_task(log.follow(self._bell)))
            self._shared[run_id] = shared
        shared.readers += 1
        try:
            yield shared.log
        finally:
            shared.readers -= 1
            if not shared.readers:
                shared.following.cancel()
                if self._shared.get(run_id) is shared:
                    del self._shared[run_id]

    def count(self) -> int:
        """How many read now."""
        return sum(shared.readers for shared in self._shared.values())
