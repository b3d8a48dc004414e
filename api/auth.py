"""Who may come in: Bearer keys, and without any of them the same machine only."""

import hmac
import ipaddress
from base64 import b64decode
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.responses import Response

from api.errors import problem
from orchestrator.settings import ApiKey, WorkerKey

GUARDED: Final = ("/v1/", "/ops/", "/metrics")
"""What needs a key; the rest says nothing that is worth one."""

PAGES: Final = "/ops/ui"
"""What browsers open. They cannot send a Bearer key, but they ask for a name and a password. Only
here: a browser adds these to whatever a page of somebody else makes it send, and pages change
nothing.
"""

WORKERS: Final = "/workers/"
"""What the keys of workers open, and no other; and they open nothing else."""

_STRANGE_NAME: Final = (
    "Without RUNSTATE_API_KEYS this server answers to localhost and 127.0.0.1 only, not to other"
    " names for it."
)
"""Any page in a browser of this machine may have its own name point here, and read the answers."""

_CHALLENGE: Final = {"WWW-Authenticate": "Bearer"}
_PAGES_CHALLENGE: Final = {"WWW-Authenticate": 'Basic realm="Runstate", charset="UTF-8"'}


def refusal(
    path: str,
    headers: Headers,
    keys: Sequence[ApiKey],
    worker_keys: Sequence[WorkerKey] = (),
) -> Response | None:
    """The 401 or 403 that the request is to be answered with, or nothing."""
    secrets = [key.secret for key in keys]
    if path.startswith(WORKERS):
        secrets = [key.secret for key in worker_keys]
    elif not path.startswith(GUARDED):
        return None
    elif not keys:
        return None if _names_loopback(headers) else problem(403, _STRANGE_NAME)
    is_page = path.startswith(PAGES)
    challenge = _PAGES_CHALLENGE if is_page else _CHALLENGE
    given = key_given(path, headers)
    if not given:
        text = "You didn't provide an API key. Send the header 'Authorization: Bearer YOUR_KEY'."
        if is_page:
            text = "Log in with any name, and an API key as the password."
        return problem(401, text, headers=challenge)
    if not _is_known(given, secrets):
        text = f"Incorrect API key provided: {_masked(given)}."
        return problem(401, text, code="invalid_api_key", headers=challenge)
    return None


def open_door(host: str, keys: Sequence[ApiKey]) -> str | None:
    """Why this address must not be served, in one sentence; nothing if it may."""
    if keys or _is_loopback(host):
        return None
    return (
        f"Refusing to serve {host} without keys: anybody could use it. Set RUNSTATE_API_KEYS, or"
        " RUNSTATE_HOST=127.0.0.1."
    )


def token_of(headers: Headers) -> str:
    """The Bearer key that was sent; nothing if there is none."""
    return _credentials(headers, "bearer")


def key_given(path: str, headers: Headers) -> str:
    """The key that was sent, as a Bearer key or, to a page, as a password."""
    return token_of(headers) or (_password_of(headers) if path.startswith(PAGES) else "")


def is_same(given: str, key: SecretStr) -> bool:
    """Whether this is the key that was sent; the time taken tells nothing."""
    sent = given.encode("latin-1")  # as the headers were decoded
    return hmac.compare_digest(sent, key.get_secret_value().encode())


def _password_of(headers: Headers) -> str:
    try:
        name_and_password = b64decode(_credentials(headers, "basic"), validate=True)
    except ValueError:
        return ""
    return name_and_password.partition(b":")[2].decode("latin-1")


def _credentials(headers: Headers, scheme: str) -> str:
    found, _, given = headers.get("authorization", "").partition(" ")
    return given.strip() if found.lower() == scheme else ""


def _is_known(given: str, keys: Sequence[SecretStr]) -> bool:
    """Compares with every key in full."""
    matches = [is_same(given, key) for key in keys]
    return any(matches)


def _masked(key: str) -> str:
    return f"***{key[-4:]}" if len(key) > 16 else "***"


def _names_loopback(headers: Headers) -> bool:
    try:
        return _is_loopback(urlsplit(f"//{headers.get('host', '')}").hostname or "")
    except ValueError:
        return False


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
