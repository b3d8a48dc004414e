"""The embedded store of ``runstate dev``, kept running."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from cli.failure import Failure
from orchestrator.errors import StoreUnavailable
from orchestrator.storage.embedded import EmbeddedServer, start

POLL_S: Final = 0.1
PAUSE_S: Final = 1.0  # after a start that failed


class StoreKeeper:
    """One server on one folder: adopted or started, and started again when it dies.

    The folder keeps address and password, so the other processes find the new server by themselves.
    """

    def __init__(
        self,
        home: Path,
        on_change: Callable[[], None],
        say: Callable[[str], None],
        *,
        is_restarted: bool,
    ) -> None:
        self._home = home
        self._on_change = on_change
        self._say = say
        self._is_restarted = is_restarted
        self._is_stopping = False
        self._server: EmbeddedServer | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        return None if self._server is None else self._server.pid

    async def start(self) -> EmbeddedServer:
        """The server, ready; ``Failure`` says why there is none."""
        try:
            self._server = await asyncio.to_thread(start, self._home)
        except StoreUnavailable as problem:
            raise Failure(str(problem)) from problem
        self._on_change()
        self._task = asyncio.create_task(self._keep_running(), name="store")
        return self._server

    async def stop(self) -> None:
        """Everything acknowledged is on disk and the server is gone."""
        self._is_stopping = True
        if self._task is not None:
            await self._task  # not cancelled: a start under way must not be left alone
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)
            self._server = None

    async def _keep_running(self) -> None:
        while not self._is_stopping:
            if self._server is not None and not self._server.is_running():
                self._server = None
                self._on_change()
                if not self._is_restarted:
                    self._say("store ended; it stays down, as asked")
                    return
                self._say("store ended; starting it again")
            if self._server is None:
                await self._start_again()
            await asyncio.sleep(POLL_S)

    async def _start_again(self) -> None:
        try:
            self._server = await asyncio.to_thread(start, self._home)
        except StoreUnavailable as problem:
            self._say(str(problem))
            await asyncio.sleep(PAUSE_S)
        else:
            self._on_change()
