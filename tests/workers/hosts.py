"""Our own processes around a worker host without a store: an api and an engine, started and killed
as often as a test needs.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import httpx2

from orchestrator.storage.embedded import find_free_port
from tests.waiting import until
from tests.workers.scene import TOOLBOX, Scene

KEY: Final = "a-key-for-all-tools"
NARROW: Final = "a-key-for-one-tool"
WORKER_KEYS: Final = f"{KEY}:*,{NARROW}:fail|try_again"


class Hosts:
    """The processes of one test. Those of the scene's own are closed with it."""

    def __init__(self, scene: Scene, address: str = "127.0.0.1") -> None:
        self.scene = scene
        self.address = address
        self.port = find_free_port()
        self.url = f"http://{address}:{self.port}"

    async def start_api(self, **environment: str) -> "subprocess.Popen[bytes]":
        """An api that answers."""
        api = self._start(
            "api",
            RUNSTATE_HOST=self.address,
            RUNSTATE_PORT=str(self.port),
            **{"RUNSTATE_WORKER_KEYS": WORKER_KEYS} | environment,
        )
        async with httpx2.AsyncClient() as http:

            async def look() -> bool:
                try:
                    return (await http.get(f"{self.url}/healthz")).status_code == 200
                except httpx2.TransportError:
                    return False

            await until(look, within_s=30)
        return api

    def start_engine(self, **environment: str) -> "subprocess.Popen[bytes]":
        """An engine."""
        return self._start("orchestrator.engine", **environment)

    def start_worker(self, queue: str = "tools", key: str = KEY) -> "subprocess.Popen[bytes]":
        """A worker that is given the queue server, the api and a key."""
        return self.popen(
            ["workers", "--tools", str(TOOLBOX), "--queue", queue], self.given_to_workers(key)
        )

    def given_to_workers(self, key: str) -> dict[str, str]:
        """The variables of a worker that has no store."""
        return {"RUNSTATE_API_URL": self.url, "RUNSTATE_WORKER_KEY": key} | self._queue

    @property
    def _queue(self) -> dict[str, str]:
        url = self.scene.settings.effective_queue_url.get_secret_value()
        lease_s = str(self.scene.settings.call_lease_s)
        return {"RUNSTATE_QUEUE_URL": url, "RUNSTATE_CALL_LEASE_S": lease_s}

    def _start(self, module: str, **environment: str) -> "subprocess.Popen[bytes]":
        store = {"RUNSTATE_REDIS_URL": self.scene.settings.redis_url.get_secret_value()}
        return self.popen([module], store | self._queue | environment)

    def popen(
        self, module: Sequence[str], environment: Mapping[str, str], on: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """A module with its arguments; ``on``: what the command begins with."""
        inherited = {k: v for k, v in os.environ.items() if not k.startswith("RUNSTATE_")}
        with self.scene.log.open("ab") as log:
            process = subprocess.Popen(
                [*on, sys.executable, "-m", *module],
                env={**inherited, **environment, "RUNSTATE_LOG_LEVEL": "DEBUG"},
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.scene.processes.append(process)
        return process


def environment_of(pid: int) -> dict[str, str]:
    """What a process has been given."""
    pairs = Path(f"/proc/{pid}/environ").read_text().split("\0")
    return dict(pair.split("=", 1) for pair in pairs if "=" in pair)
