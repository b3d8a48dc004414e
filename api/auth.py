"""Who may come in: Bearer keys, and without any of them the same machine only."""

import hmac
import ipaddress
from collections.abc import Sequence
from typing import Final

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import Response

from api.errors import problem
from orchestrator.settings import WorkerKey

GUARDED: Final = ("/v1/", "/ops/")
"""What needs a key; the rest says nothing that is worth one."""

WORKERS: Final = "/workers/"
"""What the keys of workers open, and no other; and they open nothing else."""

_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}


def refusal(
    path: str,
    headers: Headers,
    keys: Sequence[SecretStr],
    worker_keys: Sequence[WorkerKey] = (),
) -> Response | None:
    """The 401 that the request is to be answered with, or nothing."""
    if path.startswith(WORKERS):
        keys = [key.secret for key in worker_keys]
    elif not keys or not path.startswith(GUARDED):
        return None
    given = token_of(headers)
    if not given:
        text = "You didn't provide an API key. Send the header 'Authorization: Bearer YOUR_KEY'."
        return problem(401, text, headers=_CHALLENGE)
    if not _is_known(given, keys):
        text = f"Incorrect API key provided: {_masked(given)}."
        return problem(401, text, code="invalid_api_key", headers=_CHALLENGE)
    return None


def open_door(host: str, keys: Sequence[SecretStr]) -> str | None:
    """Why this address must not be served, in one sentence; nothing if it may."""
    if keys or _is_loopback(host):
        return None
    return (
        f"Refusing to serve {host} without keys: anybody could use it. Set RUNSTATE_API_KEYS, or"
        " RUNSTATE_HOST=127.0.0.1."
    )


def token_of(headers: Headers) -> str:
    """The Bearer key that was sent; nothing if there is none."""
    scheme, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else ""


def is_same(given: str, key: SecretStr) -> bool:
    """Whether this is the key that was sent; the time taken tells nothing."""
    sent = given.encode("latin-1")  # as the headers were decoded
    return hmac.compare_digest(sent, key.get_secret_value().encode())


def _is_known(given: str, keys: Sequence[SecretStr]) -> bool:
    """Compares with every key in full."""
    matches = [is_same(given, key) for key in keys]
    return any(matches)


def _masked(key: str) -> str:
    return f"***{key[-4:]}" if len(key) > 16 else "***"


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
