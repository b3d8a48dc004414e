"""Which try of its request a client is making, by the headers of the three families of clients.

``Idempotency-Key`` names a request, as does the ``x-ms-client-request-id`` of azure's SDK, which a
repetition keeps. The openai SDKs count: ``X-Stainless-Retry-Count`` is 0 for the first try. Who
sends none of these is never taken for somebody who repeats himself.
"""

from hashlib import blake2b
from typing import Annotated, Final

from fastapi import Depends, Header, Request

from api.connection import SettingsDep
from orchestrator.errors import InvalidValue
from orchestrator.receipts import Attempt
from orchestrator.settings import Settings

MAX_KEY_CHARS: Final = 255

PATIENCE_S: Final = 600
"""So long SDKs wait for an answer that is lost without a word, before they ask again."""


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
    authorization = headers.get("authorization", "")
    asked = (authorization, request.method, request.url.path, request.url.query)
    window_ms = round(_window_s(request, settings) * 1000)
    if key is not None:
        if not 0 < len(key) <= MAX_KEY_CHARS:
            raise InvalidValue(
                f"An Idempotency-Key has 1 to {MAX_KEY_CHARS} characters.", "Idempotency-Key"
            )
        ttl_ms = round(settings.idempotency_ttl_s * 1000)
        request_name = _hash(*asked, "key", key, body)
        return Attempt(request_name, ttl_ms, key=_hash(authorization, key), is_named=True)
    if azure_id := headers.get("x-ms-client-request-id"):
        return Attempt(_hash(*asked, "azure", azure_id, body), window_ms, is_named=True)
    if (count := headers.get("x-stainless-retry-count", "")).isdecimal():
        name = _hash(*asked, "count", body)
        return Attempt(name, window_ms, is_repetition=int(count) > 0)
    return None


async def named(attempt: Annotated[Attempt | None, Depends(attempt_of)]) -> Attempt | None:
    """The try, if the client names its requests. Enough where doing it again is harmless: of the
    others, a repetition may be of a later request that is like an earlier one.
    """
    return attempt if attempt and attempt.is_named else None


def _window_s(request: Request, settings: Settings) -> float:
    """How long a repetition is known: the longer, the less a later request can be meant instead."""
    if request.method == "DELETE":  # what is deleted stays so
        return settings.idempotency_ttl_s
    if "thread_id" in request.path_params:  # its client would have gone on there
        return settings.replay_window_s + PATIENCE_S
    return settings.replay_window_s


def _hash(*parts: str | bytes) -> str:
    hashed = blake2b(digest_size=16)
    for part in parts:
        data = part if isinstance(part, bytes) else part.encode()
        hashed.update(len(data).to_bytes(8, "big") + data)
    return hashed.hexdigest()


AttemptDep = Annotated[Attempt | None, Depends(attempt_of)]
NamedAttemptDep = Annotated[Attempt | None, Depends(named)]
