"""All of Runstate on one machine: store, api, engine and workers, for ``dev`` and ``demo``."""

import asyncio
import secrets
import socket
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cli.client import Client
from cli.configuration import check_app, load_settings
from cli.failure import Failure
from cli.folder import DataFolder
from cli.leftovers import stop_leftovers
from cli.program import EXAMPLE_APP, EXAMPLE_SCRIPTS, Program, Role, environment, python
from cli.store_keeper import StoreKeeper
from cli.supervisor import Supervisor
from cli.terminal import say
from cli.worker import find_queues, worker_programs
from orchestrator.settings import Settings

WORKING: Final = ("idle", "busy")
READY_TIMEOUT_S: Final = 60.0
POLL_S: Final = 0.1
GRACE_MARGIN_S: Final = 2.0  # the processes' own grace ends first


@dataclass(frozen=True, slots=True)
class StackOptions:
    """What ``runstate dev`` was told. None leaves the default; that of ``tools``: the app file's.

    ``is_isolated``: a store of its own, even if the settings name one.
    """

    home: Path
    port: int
    workers: int = 2
    app: Path | None = None
    tools: str | None = None
    scripts: Path | None = None
    run_ttl_s: float | None = None
    not_restarted: frozenset[Role] = frozenset()
    is_isolated: bool = False


class Stack:
    """The running whole."""

    def __init__(self, options: StackOptions, settings: Settings) -> None:
        self.options = options
        self.folder = DataFolder(options.home.resolve())
        scheme = "https" if settings.tls_certificate else "http"
        self.root_url = f"{scheme}://{_local(settings.host)}:{options.port}"
        self.store_address = "the server of RUNSTATE_REDIS_URL"
        self.supervisor = Supervisor(self._write_processes, say)
        keys = settings.api_keys
        nameless = [key.secret.get_secret_value() for key in keys if key.tenant is None]
        self._minted_key = secrets.token_urlsafe(24) if keys and not nameless else None
        self.key = nameless[0] if nameless else self._minted_key
        self._settings = settings
        self.app = _app_of(options, settings)
        self._store = StoreKeeper(
            self.folder.store,
            self._write_processes,
            say,
            is_restarted=Role.STORE not in options.not_restarted,
        )

    async def start(self) -> None:
        """Starts everything and waits until it can take a run."""
        if leftovers := await asyncio.to_thread(stop_leftovers, self.folder):
            say(f"stopped {len(leftovers)} processes of a killed runstate dev")
        _refuse_busy_port(self._settings.host, self.options.port)
        say(f"starting in {self.folder.home}")
        told = self._environment()
        if self.app is not None:
            say(f"the app file is {self.app}")
            await check_app(self.app, told)
        if self.options.is_isolated or "redis_url" not in self._settings.model_fields_set:
            server = await self._store.start()
            self.store_address = server.address
            told["RUNSTATE_REDIS_URL"] = server.url.get_secret_value()
        queues = await find_queues(self.options.tools, told)
        self.supervisor.start(self._programs(queues, told))
        await self._wait_until_ready(queues)

    async def stop(self) -> None:
        """api, engine, workers, and the store last."""
        await self.supervisor.stop(self._settings.shutdown_grace_s + GRACE_MARGIN_S)
        await self._store.stop()
        self.folder.forget_processes()

    def _environment(self) -> dict[str, str]:
        options = self.options
        told = environment(RUNSTATE_PORT=str(options.port))
        if self._minted_key is not None:
            named = (f"{k.tenant}={k.secret.get_secret_value()}" for k in self._settings.api_keys)
            told["RUNSTATE_API_KEYS"] = ",".join((*named, self._minted_key))
        if self.app is not None:
            told["RUNSTATE_APP_FILE"] = str(self.app.resolve())
        if options.is_isolated:
            told.pop("RUNSTATE_QUEUE_URL", None)
        if options.run_ttl_s is not None:
            told["RUNSTATE_RUN_TTL_S"] = str(options.run_ttl_s)
        if options.scripts is not None:
            told["RUNSTATE_SCRIPTS_DIR"] = str(options.scripts.resolve())
        elif self.app is None and self._settings.scripts_dir is None:
            told["RUNSTATE_SCRIPTS_DIR"] = str(EXAMPLE_SCRIPTS)
        return told

    def _programs(self, queues: list[str], told: dict[str, str]) -> list[Program]:
        mark = str(self.folder.home)
        programs = [
            Program(Role.API, "api", python("api", mark=mark), told),
            Program(Role.ENGINE, "engine", python("orchestrator.engine", mark=mark), told),
            *worker_programs(self.options.tools, queues, self.options.workers, told, mark),
        ]
        return [
            replace(
                program,
                log=self.folder.log(program.name),
                is_restarted=program.role not in self.options.not_restarted,
            )
            for program in programs
        ]

    async def _wait_until_ready(self, queues: list[str]) -> None:
        """Ready: the API says so, and every queue has all its workers."""
        give_up_at = time.monotonic() + READY_TIMEOUT_S
        certificate = self._settings.tls_certificate
        async with Client(self.root_url, self.key, certificate) as client:
            while missing := await self._what_is_missing(client, queues):
                self._refuse_deaths()
                if time.monotonic() > give_up_at:
                    raise Failure(f"Not ready after {READY_TIMEOUT_S:.0f} s: {missing}")
                await asyncio.sleep(POLL_S)

    async def _what_is_missing(self, client: Client, queues: list[str]) -> str | None:
        if missing := await client.what_is_missing():
            return missing
        answer = await client.get("/ops/queues")
        ready = Counter(
            queue["name"]
            for queue in answer["data"]
            for worker in queue["workers"]
            if worker["state"] in WORKING  # before that, its tools are not published
        )
        waiting = [name for name in queues if ready[name] < self.options.workers]
        return f"no workers yet on {', '.join(waiting)}" if waiting else None

    def _refuse_deaths(self) -> None:
        """Whatever dies before it was of use will not be better the next time."""
        for child in self.supervisor.children:
            if child.deaths:
                raise Failure(f"{child.program.name} did not start: {_last_line(child.program)}")

    def _write_processes(self) -> None:
        api = self.supervisor.pids(Role.API)
        self.folder.write_processes(
            {
                "store": self._store.pid,
                "api": api[0] if api else None,
                "engine": self.supervisor.pids(Role.ENGINE),
                "workers": self.supervisor.pids(Role.WORKER),
            }
        )


@asynccontextmanager
async def running_stack(options: StackOptions) -> AsyncIterator[Stack]:
    """The stack, ready for runs; stopped in order at the end, whatever the end is."""
    stack = Stack(options, load_settings())
    with stack.folder.opened():
        try:
            await stack.start()
            yield stack
        finally:
            await stack.stop()


def _app_of(options: StackOptions, settings: Settings) -> Path | None:
    """What was asked for, or lies here; without anything of the user's, the example."""
    if app := options.app or settings.app_file:
        return app
    here = Path("runstate.yaml")
    return here if here.is_file() else None if options.tools else EXAMPLE_APP


def _local(host: str) -> str:
    """The address to reach a server of this machine that listens on this one."""
    return "127.0.0.1" if host in ("", "0.0.0.0") else host  # noqa: S104


def _refuse_busy_port(host: str, port: int) -> None:
    """Says which port is taken before anything is started."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as problem:
            raise Failure(
                f"Port {port} cannot be used ({problem.strerror}): choose another --port."
            ) from problem


def _last_line(program: Program) -> str:
    text = program.log.read_text(errors="replace") if program.log else ""
    lines = text.strip().splitlines() or ["it does not say why"]
    return f"{lines[-1]} (more in {program.log})"
