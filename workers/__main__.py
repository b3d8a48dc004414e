"""``python -m workers [--tools MODULE] --queue QUEUE``: one worker process for one queue.

The servers come from the environment (``RUNSTATE_REDIS_URL``, ``RUNSTATE_QUEUE_URL``; without the
store ``RUNSTATE_API_URL``), so that no password shows in a list of processes. Exit code 2: the
tools cannot be served as asked. 78: the settings are wrong, or the store or the API refuses this
worker; it will be no better next time.
"""

import argparse
import json
import os
import secrets
import socket
import sys
from collections.abc import Mapping
from contextlib import redirect_stdout
from dataclasses import asdict
from functools import partial
from typing import Any, Final

import structlog

from orchestrator.entry import give_up, settings_and_app
from orchestrator.ledger import StoreLedger, WorkerLedger
from orchestrator.lint import lint
from orchestrator.loading import NotLoaded, Tools, load_tools
from orchestrator.logs import configure_logs
from orchestrator.records import Isolation, Json, ToolSpec
from orchestrator.settings import Settings
from orchestrator.storage.valkey import ValkeyStore, connect, open_store
from workers.bench import Bench
from workers.inline import InlineWorker
from workers.loader import for_queue, isolation, queues
from workers.process import ProcessWorker
from workers.remote import connect_remote

_KINDS: Final[Mapping[Isolation, type[ProcessWorker | InlineWorker]]] = {
    "process": ProcessWorker,
    "inline": InlineWorker,
}

_NO_TOOLS: Final = 2

log = structlog.get_logger(__name__)


def main() -> None:
    """Serve the queue until SIGTERM or SIGINT, or say which queues the tools need."""
    asked = _arguments()
    settings, app = settings_and_app()
    configure_logs(settings)
    try:
        with redirect_stdout(sys.stderr):  # a module may print what it likes
            tools = load_tools(asked.tools) if asked.tools else app.tools
        if asked.queue is None:
            sys.stdout.write(json.dumps(_answer(tools, asked)) + "\n")
            return
        tools = for_queue(tools, asked.queue)
    except NotLoaded as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(_NO_TOOLS)
    name = f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(3)}"
    bench = Bench(name, tools, settings, partial(_open_ledger, tools), _connect_ledger)
    worker = _KINDS[isolation(tools)](asked.queue, bench)
    if not worker.refusal:
        log.info("worker.started", worker=name, queue=asked.queue, tools=sorted(tools))
        for finding in _findings(tools):
            log.warning("tool.lint", **finding)
        worker.work(logging_level="WARNING")
    if worker.refusal:
        give_up(worker.refusal)
    if not (worker.is_told_to_stop or worker.is_worn_out):  # RQ has logged why it gave up
        sys.exit(1)
    log.info("worker.stopped", worker=name)


def _answer(tools: Tools, asked: argparse.Namespace) -> Any:
    """What was asked about the tools."""
    if asked.lint:
        return _findings(tools)
    return [_function(tool.spec) for tool in tools.values()] if asked.functions else queues(tools)


def _function(spec: ToolSpec) -> Json:
    """The tool as an assistant declares it."""
    function = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    return {"type": "function", "function": function}


def _findings(tools: Tools) -> list[dict[str, str]]:
    """The findings about these tools, as JSON has them."""
    return [asdict(finding) for finding in lint([tool.spec for tool in tools.values()])]


async def _open_ledger(tools: Tools, settings: Settings) -> WorkerLedger:
    if not settings.has_no_store:
        return StoreLedger(await open_store(settings))
    ledger = connect_remote(settings)
    try:
        await ledger.check(tools)
    except BaseException:
        await ledger.close()
        raise
    return ledger


def _connect_ledger(settings: Settings) -> WorkerLedger:
    if settings.has_no_store:
        return connect_remote(settings)
    client = connect(settings.redis_url)
    return StoreLedger(ValkeyStore(client, settings.key_prefix, settings.partitions))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m workers", description=__doc__)
    parser.add_argument(
        "--tools", help="a module (shop.tools) or a file (tools.py); else what the app file says"
    )
    task = parser.add_mutually_exclusive_group(required=True)
    task.add_argument("--queue", help="the queue to serve")
    task.add_argument("--print-queues", action="store_true", help="list the queues as JSON")
    task.add_argument("--functions", action="store_true", help="declare them as JSON")
    task.add_argument("--lint", action="store_true", help="say as JSON what to improve")
    return parser.parse_args()


if __name__ == "__main__":
    main()
