"""Child processes that are kept running and are stopped in good order.

Each child has a session of its own, so that a Ctrl-C in the terminal reaches only us and we decide
who stops when. A child that dies is started again at once; one that keeps dying, after a pause that
doubles up to ``MAX_PAUSE_S``. Code 0 is no death: a worker has had its share of calls. Code 78
(``EX_CONFIG``) is final: the child has said why it will never be of use.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from cli.program import Program, Role

STOP_ORDER: Final = (Role.API, Role.ENGINE, Role.WORKER)
FIRST_PAUSE_S: Final = 0.1
MAX_PAUSE_S: Final = 5.0
SETTLED_S: Final = 10.0  # a child that lived this long starts with the first pause again
HURRY_S: Final = 0.5  # the grace after a second Ctrl-C
LAST_WORD_S: Final = 2.0  # between the second SIGTERM and SIGKILL


class Child:
    """One program, as often as it takes."""

    def __init__(
        self, program: Program, on_change: Callable[[], None], say: Callable[[str], None]
    ) -> None:
        self.program = program
        self.deaths = 0
        self._on_change = on_change
        self._say = say
        self._process: asyncio.subprocess.Process | None = None
        self._is_stopping = asyncio.Event()
        self._task = asyncio.create_task(self._keep_running(), name=program.name)

    @property
    def pid(self) -> int | None:
        """The process that runs now, if one does."""
        return None if self._process is None else self._process.pid

    async def end(self) -> None:
        """Returns when it has ended and is not started again."""
        await asyncio.shield(self._task)

    async def stop(self, grace_s: float | None) -> None:
        """Asked by SIGTERM, once more after the grace, then killed. ``None``: asked once only.

        To RQ's workers and to uvicorn the second SIGTERM means: leave what is under way. A worker
        then ends its forked job too, which a SIGKILL would leave behind.
        """
        self._is_stopping.set()
        for patience_s in (grace_s, LAST_WORD_S):
            self._terminate()
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s):
                    return await asyncio.shield(self._task)
        self.kill()
        return await self._task

    def kill(self) -> None:
        """Ends the process and its group at once; it is not started again."""
        self._is_stopping.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def _terminate(self) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.terminate()

    async def _keep_running(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._is_stopping.is_set():
            started_at = time.monotonic()
            code = await self._run_once()
            if self._is_stopping.is_set():
                return
            self.deaths += 1
            ending = _ending(code)
            if not self.program.is_restarted or code == os.EX_CONFIG:
                why = "as asked" if not self.program.is_restarted else "as it cannot be of use"
                self._say(f"{self.program.name} {ending}; it stays down, {why}")
                return
            if time.monotonic() - started_at > SETTLED_S or code == 0:
                pause_s = FIRST_PAUSE_S
            self._say(f"{self.program.name} {ending}; starting it again")
            with suppress(TimeoutError):
                async with asyncio.timeout(pause_s):
                    await self._is_stopping.wait()
            pause_s = min(2 * pause_s, MAX_PAUSE_S)

    async def _run_once(self) -> int:
        with ExitStack() as open_files:
            path = self.program.log
            log = open_files.enter_context(path.open("ab")) if path else None
            process = await asyncio.create_subprocess_exec(
                *self.program.argv,
                env=self.program.environment,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self._process = process
        if self._is_stopping.is_set():  # asked to stop while it was being started
            self._terminate()
        self._on_change()
        code = await process.wait()
        self._process = None
        self._on_change()
        return code


class Supervisor:
    """All children of one command."""

    def __init__(self, on_change: Callable[[], None], say: Callable[[str], None]) -> None:
        self.children: list[Child] = []
        self._on_change = on_change
        self._say = say

    def start(self, programs: Sequence[Program]) -> None:
        """Starts them all and keeps them running."""
        self.children += [Child(program, self._on_change, self._say) for program in programs]

    def pids(self, role: Role) -> list[int]:
        """The processes of one role that run now."""
        found = (child.pid for child in self.children if child.program.role is role)
        return [pid for pid in found if pid is not None]

    async def end(self) -> None:
        """Returns when all have ended and none is started again."""
        await asyncio.gather(*(child.end() for child in self.children))

    async def stop(self, grace_s: float | None) -> None:
        """Stops role by role. Cancelling it (a second Ctrl-C) ends whatever is left in a hurry."""
        try:
            for role in STOP_ORDER:
                await self._stop(role, grace_s)
        except asyncio.CancelledError:
            await asyncio.gather(*(child.stop(HURRY_S) for child in self.children))

    async def _stop(self, role: Role, grace_s: float | None) -> None:
        children = [child for child in self.children if child.program.role is role]
        await asyncio.gather(*(child.stop(grace_s) for child in children))


def _ending(code: int) -> str:
    return f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with code {code}"
