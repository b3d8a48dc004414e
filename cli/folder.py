"""The data folder of ``runstate dev``: what lies where, and who may use it.

DIR/store/           the embedded store with its data, password and log
DIR/logs/NAME.log    what each process wrote
DIR/processes.json   {"store": 11, "api": 12, "engine": [13], "workers": [14, 15]}
DIR/lock             locked as long as a ``runstate dev`` uses the folder
"""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from cli.failure import Failure


class Processes(TypedDict):
    """The processes that run now, by their ids. Null: not running, or not ours."""

    store: int | None
    api: int | None
    engine: list[int]
    workers: list[int]


@dataclass(frozen=True, slots=True)
class DataFolder:
    """The paths under one folder, which is made when it is opened."""

    home: Path

    @property
    def store(self) -> Path:
        """Where the embedded store keeps its data."""
        return self.home / "store"

    def log(self, name: str) -> Path:
        """Where the process of this name writes."""
        plain = "".join(letter if letter.isalnum() else "-" for letter in name)
        return self.home / "logs" / f"{plain}.log"

    @contextmanager
    def opened(self) -> Iterator[None]:
        """The folder is there and is ours alone; ``Failure`` if another process has it."""
        (self.home / "logs").mkdir(parents=True, exist_ok=True)
        (self.home / ".gitignore").write_text("*\n")
        with (self.home / "lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Failure(
                    f"Another runstate dev uses {self.home}: stop it, or choose another --data."
                ) from None
            yield

    def write_processes(self, processes: Processes) -> None:
        """Readers find the old list or the new one, never half of one."""
        draft = self.home / "processes.json.new"
        draft.write_text(json.dumps(processes))
        draft.replace(self.home / "processes.json")

    def read_processes(self) -> Processes:
        """The list as it was last written; an empty one if there is none."""
        path = self.home / "processes.json"
        if not path.exists():
            return {"store": None, "api": None, "engine": [], "workers": []}
        processes: Processes = json.loads(path.read_text())
        return processes

    def forget_processes(self) -> None:
        """Nothing runs any more."""
        (self.home / "processes.json").unlink(missing_ok=True)
