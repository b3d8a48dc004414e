"""``python -m api``: one api process, until SIGTERM or SIGINT."""

import sys

import uvicorn

from api.app import create_app
from api.auth import open_door
from orchestrator.logs import configure_logs
from orchestrator.settings import Settings
from orchestrator.storage.valkey import open_store


def main() -> None:
    """Serve what the settings say, unless that would leave the door open."""
    settings = Settings()
    if sentence := open_door(settings.host, settings.api_keys):
        sys.exit(sentence)
    configure_logs(settings)
    uvicorn.run(
        create_app(settings, lambda: open_store(settings)),
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


if __name__ == "__main__":
    main()
