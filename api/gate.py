"""What every request passes: an id, the key check, one log line, and an answer whatever happens."""

import secrets
import time
from collections.abc import Sequence

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.auth import refusal
from api.errors import server_error
from orchestrator.settings import ApiKey, WorkerKey

log = structlog.get_logger(__name__)


class Gate:
    """The outermost layer of our own. Bodies and keys are never logged."""

    def __init__(
        self, app: ASGIApp, keys: Sequence[ApiKey], worker_keys: Sequence[WorkerKey]
    ) -> None:
        self._app = app
        self._keys = keys, worker_keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, send)
        try:
            refused = refusal(scope["path"], Headers(scope=scope), *self._keys)
            await (refused or self._app)(scope, receive, exchange.send)
        except Exception:
            log.exception("request.failed", request_id=exchange.request_id, path=scope["path"])
            if exchange.status:
                raise
            await server_error()(scope, receive, exchange.send)
        finally:
            exchange.note()


class _Exchange:
    """One request and what became of it."""

    def __init__(self, scope: Scope, send: Send) -> None:
        self.request_id = f"req_{secrets.token_hex(12)}"
        self.status = 0
        self._scope = scope
        self._send = send
        self._started_s = time.perf_counter()

    async def send(self, message: Message) -> None:
        """Passes the answer on, with its id on it."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            MutableHeaders(scope=message)["x-request-id"] = self.request_id
        await self._send(message)

    def note(self) -> None:
        """The log line. Reads that went well are for debugging only: clients poll."""
        is_dull = self._scope["method"] == "GET" and self.status == 200
        (log.debug if is_dull else log.info)(
            "request.done",
            request_id=self.request_id,
            method=self._scope["method"],
            path=self._scope["path"],
            status=self.status,
            ms=round((time.perf_counter() - self._started_s) * 1000, 1),
        )
