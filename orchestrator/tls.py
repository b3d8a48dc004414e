"""TLS to the store and to the queues, with the trusted authorities read once in a process.

redis-py reads them for every connection, which takes 25 ms of processor time with those of the
system. A forked call makes two connections; it inherits what its worker has read.
"""

import socket
import ssl
from typing import Any, Final

from redis.asyncio import connection as asynchronous
from redis.connection import SSLConnection

_READ: Final[dict[str, asynchronous.RedisSSLContext]] = {}
"""By the options of the URL that say whom to trust."""


class StoreConnection(asynchronous.SSLConnection):
    """For clients of the store."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ssl_context = _trust(options)


class QueueConnection(SSLConnection):
    """For clients of the queues."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._trust = _trust(options)

    def _wrap_socket_with_ssl(self, sock: socket.socket) -> ssl.SSLSocket:
        """As redis-py does, but for the reading (8.1; never called, should that be renamed)."""
        return self._trust.get().wrap_socket(sock, server_hostname=self.host)


def _trust(options: dict[str, Any]) -> asynchronous.RedisSSLContext:
    named = {name: value for name, value in options.items() if name.startswith("ssl_")}
    known = asynchronous.SSLConnection(**named).ssl_context
    return _READ.setdefault(repr(sorted(named.items())), known)
