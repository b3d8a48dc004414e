"""``runstate dev`` as a test has it: one folder, one port, started and ended as often as needed."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2

from orchestrator.storage.embedded import find_free_port
from tests.cli.waits import until

START_S = 60.0


class Dev:
    """A ``runstate dev`` on one folder and port, which may run several times."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "data"
        self.port = find_free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.output = folder / "output"
        self.process: subprocess.Popen[bytes] | None = None

    async def start(self, *options: str) -> None:
        """Starts it and waits until it says that it is ready."""
        self.launch(*options)
        await until(lambda: self.said("export OPENAI_API_KEY"), START_S)

    def launch(self, *options: str) -> "subprocess.Popen[bytes]":
        command = [sys.executable, "-m", "cli.main", "dev"]
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [
                    *command,
                    "--data",
                    self.home,
                    "--port",
                    str(self.port),
                    "--workers",
                    "1",
                    *options,
                ],
                stdout=output,
                stderr=output,
            )
        return self.process

    def end(self, number: signal.Signals) -> int:
        """Sends it the signal and waits for its end."""
        assert self.process is not None
        self.process.send_signal(number)
        return self.process.wait(timeout=60)

    def said(self, text: str) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.output.read_text()
        return text in self.output.read_text()

    def is_ready(self) -> bool:
        try:
            return httpx2.get(f"{self.url}/readyz").status_code == 200
        except httpx2.TransportError:
            return False

    def processes(self) -> dict[str, Any]:
        path = self.home / "processes.json"
        listed: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
        return listed

    def pids(self) -> list[int]:
        """The store first; those that are down are left out."""
        listed = self.processes()
        named = [listed["store"], listed["api"], *listed["engine"], *listed["workers"]]
        return [pid for pid in named if pid is not None]

    def clean_up(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)
        for pid in self.pids() if self.processes() else []:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def replaced(dev: Dev, role: str, before: object) -> Callable[[], bool]:
    return lambda: dev.processes()[role] not in (before, [], None)
