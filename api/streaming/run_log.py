"""The log of one run as all readers in this process share it: read once, rendered once.

Readers are woken by the log, never fed: each one asks for what comes behind its own place, so a
slow one holds up nobody and loses nothing. What it comes for too late is read again for it alone.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Awaitable, Callable
from operator import attrgetter
from typing import Final

import structlog

from api.doorbell import Doorbell, Strokes
from api.streaming.frames import Rendered, render
from api.streaming.places import EventKey, event_id, just_before
from orchestrator.errors import RunstateError, ServerStopping, StoreUnavailable
from orchestrator.shell import view_run
from orchestrator.store import RunRef, RunView, Store

MAX_EVENTS: Final = 500
"""So many events are read at a time: some 5 ms of work, in which nobody else is served."""

KEPT_BYTES: Final = 1024 * 1024
"""What is kept of a log for readers that are a little behind."""

OUTAGE_S: Final = 5.0
RETRY_S: Final = 0.2
"""The store is given so long to come back, and asked so often; a restart takes less."""

_KEY: Final = attrgetter("key")

log = structlog.get_logger(__name__)


class RunLog:
    """Begins behind ``since``; ``follow`` keeps it up to date as long as somebody reads it."""

    def __init__(self, store: Store, view: RunView, since: EventKey, quiet_s: float) -> None:
        self.is_complete = False
        """Whether nothing will be added any more."""
        self._store = store
        self._view = view
        self._ref = RunRef(view.run.thread_id, view.run.id)
        self._quiet_s = quiet_s
        self._pages: list[Rendered] = []
        self._size_bytes = 0
        self._since = self._tail = min(since, just_before((view.run.updated_ms, 0)))
        self._news = asyncio.Event()
        self._failure: Exception | None = None

    async def follow(self, bell: Doorbell) -> None:
        """Add what happens until the run ends. Readers are told of a failure."""
        try:
            with bell.listening(self._ref.run_id) as strokes:
                while not self.is_complete:
                    await self._patiently(self._read_on)
                    if strokes.may_be_over and not self.is_complete:
                        strokes.may_be_over = False
                        await self._patiently(self._look)
                    await self._pause(bell, strokes)
        except RunstateError as error:
            self._fail(error)
        except Exception as error:
            log.exception("stream.failed", run_id=self._ref.run_id)
            self._fail(error)

    @property
    def has_failed(self) -> bool:
        """Whether nothing more can be read here."""
        return self._failure is not None

    async def after(self, cursor: EventKey) -> tuple[list[Rendered], EventKey]:
        """What comes behind ``cursor``, and the cursor behind that.

        Waits for something to come. Nothing at all means that it has been quiet for a while, or
        that the log is complete. Raises what ended the log before its time.
        """
        if cursor < self._since:
            return await self._read_again(cursor)
        pages = self._kept(cursor)
        if not pages and not self.is_complete:
            if self._failure is not None:
                raise self._failure
            await self._news.wait()
            pages = self._kept(cursor)
        return pages, pages[-1].key if pages else cursor

    async def _pause(self, bell: Doorbell, strokes: Strokes) -> None:
        """Until the run was committed; a look at its deadline when that takes long."""
        if self.is_complete:
            return
        has_rung = await strokes.wait(self._wait_s())
        if bell.is_closing:
            raise ServerStopping
        if not has_rung:
            await self._patiently(self._look)
            self._wake()

    async def _look(self) -> None:
        """At the run itself. Raises ``NotFound`` if it was deleted, and its log with it."""
        self._view = await view_run(self._store, self._ref)

    async def _read_again(self, cursor: EventKey) -> tuple[list[Rendered], EventKey]:
        lines = await self._store.read_events(self._ref, event_id(cursor), MAX_EVENTS)
        pages = await render(self._store, self._view, lines)
        return pages, pages[-1].key if pages else self._since

    def _kept(self, cursor: EventKey) -> list[Rendered]:
        """What of the kept pages comes behind ``cursor``; a cursor may also lie before them all
        if they were dropped meanwhile: then nothing, and the reader comes again.
        """
        if cursor < self._since:
            return []
        return self._pages[bisect_right(self._pages, cursor, key=_KEY) :]

    async def _patiently(self, read: Callable[[], Awaitable[None]]) -> None:
        clock = asyncio.get_running_loop().time
        give_up_at = clock() + OUTAGE_S
        while True:
            try:
                await read()
            except StoreUnavailable:
                if clock() > give_up_at:
                    raise
                await asyncio.sleep(RETRY_S)
            else:
                return

    async def _read_on(self) -> None:
        """Add everything that is there. A run that had ended before has nothing to come."""
        has_more = True
        while has_more and not self.is_complete:
            lines = await self._store.read_events(self._ref, event_id(self._tail), MAX_EVENTS)
            has_more = len(lines) == MAX_EVENTS
            self._add(await render(self._store, self._view, lines))
        if self._view.run.is_final and not self.is_complete:
            self.is_complete = True
            self._wake()

    def _add(self, pages: list[Rendered]) -> None:
        if not pages:
            return
        self._tail = pages[-1].key
        shown = [page for page in pages if page.frames]
        self._pages += shown
        self._size_bytes += sum(map(_size, shown))
        self.is_complete = any(page.is_final for page in shown)
        self._drop_oldest()
        if shown:
            self._wake()

    def _drop_oldest(self) -> None:
        dropped = 0
        while self._size_bytes > KEPT_BYTES and dropped < len(self._pages) - 1:
            self._size_bytes -= _size(self._pages[dropped])
            dropped += 1
        if dropped:
            self._since = self._pages[dropped - 1].key
            del self._pages[:dropped]

    def _wait_s(self) -> float:
        """Until it is quiet, or the run's deadline is due."""
        left_s = (self._view.run.deadline_ms - self._view.now_ms) / 1000
        return self._quiet_s if self._view.run.is_final else min(self._quiet_s, max(left_s, 0.05))

    def _fail(self, error: Exception) -> None:
        """Every reader gets this error, after what is there."""
        self._failure = error
        self._wake()

    def _wake(self) -> None:
        woken, self._news = self._news, asyncio.Event()
        woken.set()


def _size(page: Rendered) -> int:
    return sum(map(len, page.frames))
