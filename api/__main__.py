"""``python -m api``: one api process, until SIGTERM or SIGINT."""

import sys
from contextlib import suppress
from typing import Final

import uvicorn

from api.app import create_app
from api.auth import open_door
from api.server import Server
from orchestrator.logs import configure_logs
from orchestrator.settings import Settings
from orchestrator.storage.valkey import open_store

STARTUP_FAILED: Final = 3
"""The exit code that uvicorn uses, too: the address could not be listened on."""


def main() -> None:
    """Serve what the settings say, unless that would leave the door open."""
    settings = Settings()
    if sentence := open_door(settings.host, settings.api_keys):
        sys.exit(sentence)
    configure_logs(settings)
    app = create_app(settings, lambda: open_store(settings))
    config = uvicorn.Config(
        app,
        host=settings.host,
        port=settings.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=round(settings.shutdown_grace_s),
    )
    server = Server(config, on_stop=app.state.doorbell.close)
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILED)


if __name__ == "__main__":
    main()
