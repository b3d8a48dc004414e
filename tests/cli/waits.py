"""Waiting for what processes and files show, which ring no bell."""

from collections.abc import Callable

from tests import waiting


async def until(is_true: Callable[[], bool], within_s: float = 10.0) -> None:
    """Looks again and again until it is true; ``AssertionError`` after ``within_s``."""

    async def look() -> bool:
        return is_true()

    await waiting.until(look, within_s)
