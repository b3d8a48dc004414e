"""The one way in which tests wait: for a condition, with a deadline, never for a time."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

T = TypeVar("T")

EVERY_S: Final = 0.01


async def until(look: Callable[[], Awaitable[T | None]], within_s: float = 15.0) -> T:
    """What ``look`` returns once it is true-ish; ``AssertionError`` when that takes too long."""
    deadline = time.monotonic() + within_s
    while True:
        found = await look()
        if found:
            return found
        assert time.monotonic() < deadline, f"waited {within_s} s in vain, last seen: {found!r}"
        await asyncio.sleep(EVERY_S)
