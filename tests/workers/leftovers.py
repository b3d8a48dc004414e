"""Tools of a module that leaves much behind when it is imported: a connection, if it is told where
to, and a thread that holds locks and never lets go.
"""

import ctypes
import os
import socket
import threading
from contextlib import suppress
from typing import Final

from orchestrator import tool

_LIBC: Final = ctypes.CDLL(None)
_HELD: Final = threading.Event()

LOCK: Final = threading.Lock()
MUTEX: Final = ctypes.create_string_buffer(64)
"""One of C: no signal gets a process out of waiting for it."""

CONNECTION: Final = socket.create_connection(("127.0.0.1", int(os.environ["LEFTOVERS_PORT"])))


def _hold() -> None:
    LOCK.acquire()
    _LIBC.pthread_mutex_lock(MUTEX)
    _HELD.set()
    threading.Event().wait()


threading.Thread(target=_hold, name="holder", daemon=True).start()
_HELD.wait()


@tool
def use_the_connection() -> str:
    """Read and write on the connection, and close it in a way that its peer would notice."""
    read = CONNECTION.recv(1)
    with suppress(OSError):
        CONNECTION.sendall(b"x")
    with suppress(OSError):
        CONNECTION.shutdown(socket.SHUT_RDWR)
    return f"read {len(read)} bytes"


@tool(timeout_s=0.3, cleanup_s=0.2)
def take_the_lock() -> None:
    """Wait for the lock."""
    LOCK.acquire()


@tool(timeout_s=0.3, cleanup_s=0.2)
def take_the_mutex() -> None:
    """Wait for the mutex."""
    _LIBC.pthread_mutex_lock(MUTEX)
