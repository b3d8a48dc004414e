"""``python -m workers --tools MODULE --queue QUEUE``: one worker process for one queue.

The servers come from the environment (``RUNSTATE_REDIS_URL``, ``RUNSTATE_QUEUE_URL``), so that no
password shows in a list of processes. Exit code 2: the tools cannot be served as asked.
"""

import argparse
import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from typing import Final

import structlog

from orchestrator.errors import StoreMismatch
from orchestrator.logs import configure_logs
from orchestrator.records import Isolation
from orchestrator.settings import Settings
from orchestrator.storage.valkey import ValkeyStore, connect, open_store
from orchestrator.store import Store
from workers.inline import InlineWorker
from workers.job import Bench
from workers.loader import ToolsNotLoaded, for_queue, isolation, load_tools, queues
from workers.process import ProcessWorker

_KINDS: Final[Mapping[Isolation, type[ProcessWorker | InlineWorker]]] = {
    "process": ProcessWorker,
    "inline": InlineWorker,
}

log = structlog.get_logger(__name__)


def main() -> None:
    """Serve the queue until SIGTERM or SIGINT, or say which queues the tools need."""
    asked = _arguments()
    settings = Settings()
    configure_logs(settings)
    try:
        tools = load_tools(asked.tools)
        if asked.print_queues:
            sys.stdout.write(json.dumps(queues(tools)) + "\n")
            return
        tools = for_queue(tools, asked.queue)
    except ToolsNotLoaded as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(2)
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    bench = Bench(name, tools, settings, open_store, _connect_store)
    try:
        worker = _KINDS[isolation(tools)](asked.queue, bench)
    except StoreMismatch as error:
        sys.exit(str(error))
    log.info("worker.started", worker=name, queue=asked.queue, tools=sorted(tools))
    worker.work(logging_level="WARNING")
    if not worker.is_told_to_stop:  # RQ has logged why it gave up
        sys.exit(1)
    log.info("worker.stopped", worker=name)


def _connect_store(settings: Settings) -> Store:
    return ValkeyStore(connect(settings.redis_url), settings.key_prefix, settings.partitions)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument("--tools", required=True, help="a module (shop.tools) or a file (tools.py)")
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--queue", help="the queue to serve")
    task.add_argument("--print-queues", action="store_true", help="list the queues as JSON")
    return parser.parse_args()


if __name__ == "__main__":
    main()
