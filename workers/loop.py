"""The event loop on which a worker speaks to the ledger, in one thread."""

import asyncio
import socket
from typing import Any


class OneThreadLoop(asyncio.SelectorEventLoop):
    """Looks names up in its own thread. asyncio would begin another one for that, and a lock of the
    C library that it has at a fork is never released in the child.
    """

    async def getaddrinfo(self, host: Any, port: Any, **hints: Any) -> Any:
        """As ``socket.getaddrinfo``."""
        return socket.getaddrinfo(host, port, **hints)
