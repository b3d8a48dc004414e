"""What both adapters do with a stream of server-sent events."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2

from orchestrator.errors import ModelError
from orchestrator.records import Json

DRAIN_S: Final = 0.1
"""How long to wait for the end of a finished answer, so that the connection can be used again."""


def parsed(data: str) -> Json:
    """The event's object; an empty one for JSON of any other kind."""
    try:
        value: Any = json.loads(data)  # not pydantic's: half surrogates are joined later
    except ValueError as error:
        raise ModelError("The model's stream is not JSON.", is_retryable=True) from error
    return value if isinstance(value, dict) else {}


def broken_off() -> ModelError:
    """The stream ended before the answer did."""
    return ModelError("The model's answer broke off.", is_retryable=True)


async def drain(events: AsyncIterator[object]) -> None:
    """Read on to the end of a finished answer, for a moment."""
    with contextlib.suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in events:
                pass
