"""Whether an engine or a worker of this host is alive: the health check of a container.

``python -m orchestrator.alive engine`` exits with 0 if the store has a fresh heartbeat of an engine
on this host, with 1 otherwise.
"""

import argparse
import asyncio
import socket
import sys
from typing import Literal

from orchestrator.app_file.reader import AppFileInvalid
from orchestrator.entry import Misconfigured, read_settings
from orchestrator.errors import StoreMismatch, StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.storage.valkey import open_store


async def is_alive(settings: Settings, kind: Literal["engine", "worker"], host: str) -> bool:
    """Whether a process of this kind on this host has sent a heartbeat that still counts."""
    store = await open_store(settings)
    try:
        return any(process.info.get("host") == host for process in await store.present(kind))
    finally:
        await store.close()


def main() -> None:
    """Ask for the kind named on the command line."""
    parser = argparse.ArgumentParser(prog="python -m orchestrator.alive", description=__doc__)
    parser.add_argument("kind", choices=["engine", "worker"])
    kind = parser.parse_args().kind
    try:
        is_there = asyncio.run(is_alive(read_settings(), kind, socket.gethostname()))
    except (AppFileInvalid, Misconfigured, StoreMismatch, StoreUnavailable) as error:
        sys.exit(str(error))
    if not is_there:
        sys.exit(f"The store has no heartbeat of a {kind} on this host.")


if __name__ == "__main__":
    main()
