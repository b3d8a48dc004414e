"""What a forked call would inherit of its worker, and must not use.

Replies on a connection that several processes have are mixed up, and over TLS nobody can read them;
who closes it first closes it for all. So a child begins with all of its worker's connections cut:
at the first use of one its client finds it closed, connects anew or raises. Nothing can be done
about the threads of a module: in a child there are none, and a lock that one of them held at the
fork is never released.
"""

import os
import socket
import stat
import threading
from pathlib import Path
from typing import Final

import structlog

_STANDARD_FILES: Final = 3
"""Those below may well be a connection: systemd's journal is one."""

log = structlog.get_logger(__name__)


def warn_of_leftovers() -> None:
    """Say what the import of the tools has left open and running, before anything of ours is."""
    opened = len(connections())
    threads = [one.name for one in threading.enumerate() if one is not threading.main_thread()]
    if opened:
        reason = "They are cut in each forked call: connect in the function, or at the first use."
        log.warning("tools.left_connections", connections=opened, reason=reason)
    if threads:
        reason = "They are not in forked calls, and a lock that one has at the fork stays locked."
        log.warning("tools.left_threads", threads=threads, reason=reason)


def connections() -> list[int]:
    """The file descriptors of this process's connections. Datagrams (syslog, statsd) have none."""
    default_s = socket.getdefaulttimeout()
    socket.setdefaulttimeout(None)  # a look would otherwise change how the connection waits
    try:
        numbers = (int(path.name) for path in Path("/dev/fd").iterdir())
        return [number for number in numbers if _is_connection(number)]
    except FileNotFoundError:  # a system without /proc
        return []
    finally:
        socket.setdefaulttimeout(default_s)


def cut_connections() -> None:
    """Let all of them end here, in this process alone: in the others they go on."""
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        for number in connections():
            if number != ours.fileno():
                os.dup2(ours.fileno(), number, inheritable=False)


def _is_connection(number: int) -> bool:
    try:
        if number < _STANDARD_FILES or not stat.S_ISSOCK(os.fstat(number).st_mode):
            return False
        with socket.socket(fileno=os.dup(number)) as looked_at:
            looked_at.getpeername()
            return looked_at.type is socket.SOCK_STREAM
    except OSError:  # the folder's own number, or a socket without a peer
        return False
