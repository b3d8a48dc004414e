"""``python -m orchestrator.engine``: one engine process, until SIGTERM or SIGINT."""

import asyncio
import os
import secrets
import signal
import socket
import sys

import structlog

from orchestrator.dispatch import Dispatcher
from orchestrator.engine.engine import Engine
from orchestrator.engine.guards import Guards
from orchestrator.entry import give_up, settings_and_app, settle
from orchestrator.errors import StoreMismatch, StoreUnavailable
from orchestrator.llm.routing import Models
from orchestrator.logs import configure_logs
from orchestrator.storage.valkey import open_store

log = structlog.get_logger(__name__)


async def main() -> None:
    """Build everything from the settings and work until told to stop."""
    settings, app = settings_and_app()
    configure_logs(settings)
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    try:
        store = await open_store(settings)
    except StoreMismatch as error:
        give_up(str(error))
    except StoreUnavailable as error:
        sys.exit(str(error))
    models = Models(settings)
    await asyncio.to_thread(models.load)
    guards = Guards(tuple(app.guardrails()))
    engine = Engine(store, models, Dispatcher(store, settings), settings, name, guards)
    settle()
    log.info("engine.started", engine=name)
    try:
        await engine.run(stop)
    finally:
        await models.aclose()
        await store.close()
    log.info("engine.stopped", engine=name)


if __name__ == "__main__":
    asyncio.run(main())
