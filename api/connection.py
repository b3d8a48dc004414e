"""The store as requests get it: there, or a 503 until it is.

The api starts without the store and goes on without it; whoever asks meanwhile is told to come
back.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Annotated, Final

import structlog
from fastapi import Depends, Request

from orchestrator.errors import OurFault, StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.store import Store

Connect = Callable[[], Awaitable[Store]]

FIRST_WAIT_S: Final = 1.0
"""So long the start waits for the store, so that the first requests usually find it."""

RETRY_S: Final = 0.5

log = structlog.get_logger(__name__)


class StoreConnection:
    """Opens the store as soon as it answers."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect
        self._store: Store | None = None
        self._is_open = asyncio.Event()

    @property
    def store(self) -> Store:
        """The open store. Raises ``StoreUnavailable`` as long as there is none."""
        if self._store is None:
            raise StoreUnavailable("The store has not been reached yet.")
        return self._store

    async def opened(self) -> Store:
        """The open store, however long that takes."""
        await self._is_open.wait()
        return self.store

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Opens the store, in the background if need be; closes it at the end."""
        opening = asyncio.create_task(self._open())
        await asyncio.wait({opening}, timeout=FIRST_WAIT_S)
        try:
            yield
        finally:
            opening.cancel()
            if self._store is not None:
                await self._store.close()

    async def _open(self) -> None:
        told = ""
        while self._store is None:
            try:
                self._store = await self._connect()
            except OurFault as error:
                if str(error) != told:
                    told = str(error)
                    log.warning("store.not_reached", reason=told)
                await asyncio.sleep(RETRY_S)
        self._is_open.set()


async def _settings_of(request: Request) -> Settings:
    settings: Settings = request.app.state.settings
    return settings


SettingsDep = Annotated[Settings, Depends(_settings_of)]
