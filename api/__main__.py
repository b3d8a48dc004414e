"""``python -m api``: one api process, until SIGTERM or SIGINT."""

import sys
from contextlib import suppress
from ssl import SSLError
from typing import Final

import uvicorn

from api.app import create_app
from api.auth import open_door
from api.server import Server
from orchestrator.app_file.app import App
from orchestrator.app_file.assistants import keep_assistants
from orchestrator.entry import give_up, settings_and_app, settle
from orchestrator.logs import configure_logs
from orchestrator.settings import Settings
from orchestrator.storage.valkey import open_store
from orchestrator.store import Store

STARTUP_FAILED: Final = 3
"""The exit code that uvicorn uses, too: the address could not be listened on."""


def main() -> None:
    """Serve what the settings say, unless that would leave the door open."""
    settings, app_file = settings_and_app()
    if sentence := open_door(settings.host, settings.api_keys):
        give_up(sentence)
    configure_logs(settings)
    app = create_app(settings, lambda: _open_store(settings, app_file))
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
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    try:
        config.load()
    except SSLError as error:
        give_up(f"RUNSTATE_TLS_CERTIFICATE and RUNSTATE_TLS_KEY are no certificate: {error}")
    server = Server(config, on_stop=app.state.doorbell.close)
    settle()
    with suppress(KeyboardInterrupt):
        server.run()
    if not server.started:
        sys.exit(STARTUP_FAILED)


async def _open_store(settings: Settings, app: App) -> Store:
    """The store, with the assistants of the app file in it."""
    store = await open_store(settings)
    try:
        await keep_assistants(store, app)
    except BaseException:
        await store.close()
        raise
    return store


if __name__ == "__main__":
    main()
