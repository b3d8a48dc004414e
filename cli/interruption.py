"""Running until done or told to stop by the terminal or the system."""

import asyncio
import signal
from collections.abc import Coroutine
from contextlib import suppress
from typing import Final

SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def run(main: Coroutine[object, object, None]) -> bool:
    """Whether it ended by itself. Each signal cancels it: the first asks, a second one hurries."""
    return asyncio.run(_run(main))


async def _run(main: Coroutine[object, object, None]) -> bool:
    task = asyncio.ensure_future(main)
    for number in SIGNALS:
        asyncio.get_running_loop().add_signal_handler(number, task.cancel)
    with suppress(asyncio.CancelledError):
        await task
        return True
    return False
