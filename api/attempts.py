"""Which try of its request a client is making, by the headers of the three families of clients.

``Idempotency-Key`` names a request, as does the ``x-ms-client-request-id`` of azure's SDK, which a
repetition keeps. The openai SDKs count: ``X-Stainless-Retry-Count`` is 0 for the first try. Who
sends none of these is never taken for somebody who repeats himself.
"""

from collections.abc import Awaitable, Callable
from hashlib import blake2b
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from api.connection import SettingsDep
from orchestrator.errors import InvalidValue, NotFound
from orchestrator.receipts import Attempt

MAX_KEY_CHARS: Final = 255


async def attempt_of(
    request: Request,
    settings: SettingsDep,
    key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            description="A name for the request. Sent again under it, it counts once.",
        ),
    ] = None,
) -> Attempt | None:
    """The try, if the client may make several. Keys of clients are not stored, only hashes."""
    headers = request.headers
    body = await request.body()
    asked = (headers.get("authorization", ""), request.method, request.url.path, request.url.query)
    window_ms = round(settings.replay_window_s * 1000)
    if key is not None:
        if not 0 < len(key) <= MAX_KEY_CHARS:
            raise InvalidValue(
                f"An Idempotency-Key has 1 to {MAX_KEY_CHARS} characters.", "Idempotency-Key"
            )
        ttl_ms = round(settings.idempotency_ttl_s * 1000)
        return Attempt(_hash(*asked, "key", key), _hash(body), ttl_ms, is_named=True)
    if azure_id := headers.get("x-ms-client-request-id"):
        return Attempt(_hash(*asked, "azure", azure_id, body), "", window_ms, is_named=True)
    if (count := headers.get("x-stainless-retry-count", "")).isdecimal():
        name = _hash(*asked, "count", body)
        return Attempt(name, "", window_ms, is_repetition=int(count) > 0)
    return None


def is_repetition(request: Request) -> bool:
    """Whether the client says that it has sent this before."""
    count = request.headers.get("x-stainless-retry-count", "")
    return count.isdecimal() and int(count) > 0


async def delete_once(
    removal: Awaitable[None], *, is_repetition: bool, is_gone: Callable[[], Awaitable[bool]]
) -> None:
    """Delete something. Who repeats himself is not told that it is gone: that is what he wanted."""
    try:
        await removal
    except NotFound:
        if not (is_repetition and await is_gone()):
            raise


def _hash(*parts: str | bytes) -> str:
    hashed = blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        hashed.update(len(data).to_bytes(8, "big") + data)
    return hashed.hexdigest()


AttemptDep = Annotated[Attempt | None, Depends(attempt_of)]
RepetitionDep = Annotated[bool, Depends(is_repetition)]
