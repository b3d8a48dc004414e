"""The store's doorbell for everybody in this process who waits for a run: one subscription.

Listen first, then read, then wait: what is committed after the read wakes you. A waiter costs one
event, and nothing once it has gone.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Annotated, Any

from fastapi import Depends, Request

from api.connection import StoreConnection
from orchestrator.states import FINAL
from orchestrator.store import Ring


class Strokes:
    """What one waiter hears. Strokes that find the run in the status ``ignored`` do not wake it:
    a model that speaks rings many times a second.
    """

    def __init__(self) -> None:
        self.ignored: str | None = None
        self.may_be_over = False
        """Whether a stroke told of the run's end, or may have been missed."""
        self._rung = asyncio.Event()

    def ring(self, status: str | None = None) -> None:
        """Wake the waiter, now or as soon as it waits."""
        self.may_be_over = self.may_be_over or status is None or status in FINAL
        if status is None or status != self.ignored:
            self._rung.set()

    async def wait(self, timeout_s: float) -> bool:
        """Whether it rang since the last wait, or does so within the time."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._rung.wait()
        except TimeoutError:
            return False
        self._rung.clear()
        return True


class Doorbell:
    """Tells waiters when their run was committed, or when that may have been missed."""

    def __init__(self) -> None:
        self._waiters: defaultdict[str, set[Strokes]] = defaultdict(set)
        self.is_closing = False
        """The server is about to stop: nobody waits any more, whoever streams comes to an end."""

    @contextmanager
    def listening(self, run_id: str) -> Iterator[Strokes]:
        """The strokes for a run, from now on."""
        strokes = Strokes()
        if self.is_closing:
            strokes.ring()
        waiters = self._waiters[run_id]
        waiters.add(strokes)
        try:
            yield strokes
        finally:
            waiters.discard(strokes)
            if not waiters and self._waiters.get(run_id) is waiters:
                del self._waiters[run_id]

    @asynccontextmanager
    async def hung(self, connection: StoreConnection) -> AsyncIterator[None]:
        """Listens to the store as soon as it has been reached."""
        hearing = asyncio.create_task(self._hear(connection))
        try:
            yield
        finally:
            hearing.cancel()
            await asyncio.wait({hearing})

    def close(self) -> None:
        """Wake everybody for the last time."""
        self.is_closing = True
        self._wake_all()

    async def _hear(self, connection: StoreConnection) -> None:
        store = await connection.opened()
        rings: Any = store.rings()
        async with aclosing(rings):
            async for ring in rings:
                self._tell(ring)

    def _tell(self, ring: Ring) -> None:
        if ring.ref is None:
            self._wake_all()
            return
        for strokes in self._waiters.get(ring.ref.run_id, ()):
            strokes.ring(ring.status)

    def _wake_all(self) -> None:
        for waiters in self._waiters.values():
            for strokes in waiters:
                strokes.ring()


async def _doorbell_of(request: Request) -> Doorbell:
    doorbell: Doorbell = request.app.state.doorbell
    return doorbell


DoorbellDep = Annotated[Doorbell, Depends(_doorbell_of)]
