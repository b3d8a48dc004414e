"""The HTTP server: uvicorn, told early that it is about to stop."""

import socket
from collections.abc import Callable

import uvicorn


class Server(uvicorn.Server):
    """Calls ``on_stop`` before it waits for its connections to close, so that held reads are
    answered and streams end. The application's own shutdown comes after that wait, which would take
    the whole grace.
    """

    def __init__(self, config: uvicorn.Config, on_stop: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_stop = on_stop

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, let what is under way end, and close the application."""
        self._on_stop()
        await super().shutdown(sockets)
