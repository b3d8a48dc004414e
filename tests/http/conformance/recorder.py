"""What a server answered: an ASGI layer that notes each exchange."""

import json
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.http.conformance.operations import Operation, operation_of


@dataclass(slots=True)
class Exchange:
    """One request and its answer."""

    method: str
    path: str
    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    raw: bytes = b""

    @property
    def operation(self) -> Operation | None:
        """What was asked for."""
        return operation_of(self.method, self.path)

    @property
    def body(self) -> Any:
        """The JSON of the answer."""
        return json.loads(self.raw)


class Recorder:
    """Around an application."""

    def __init__(self, app: ASGIApp) -> None:
        self.exchanges: list[Exchange] = []
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, noted when its answer begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = Exchange(scope["method"], scope["path"])
        self.exchanges.append(exchange)

        async def note(message: Message) -> None:
            if message["type"] == "http.response.start":
                exchange.status = message["status"]
                exchange.headers = {k.decode(): v.decode() for k, v in message["headers"]}
            else:
                exchange.raw += message.get("body", b"")
            await send(message)

        await self._app(scope, receive, note)

    def done(self) -> list[Operation]:
        """The operations that went well at least once, in the order of the table."""
        went_well = {one.operation for one in self.exchanges if one.status == 200}
        return [operation for operation in went_well if operation is not None]
