"""Processes of a ``runstate dev`` that was killed. They have no parent and would run for ever."""

import os
import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from cli.folder import DataFolder

GRACE_S: Final = 10.0
POLL_S: Final = 0.05


def stop_leftovers(folder: DataFolder) -> list[int]:
    """Ends what ``processes.json`` names and still runs; the store is left, it will be adopted.

    Process ids are used again by the system, so only a process whose command line bears the mark of
    this folder is touched.
    """
    processes = folder.read_processes()
    api = [processes["api"]] if processes["api"] else []
    mark = f"runstate={folder.home}"
    leftovers = [
        pid for pid in api + processes["engine"] + processes["workers"] if _bears(mark, pid)
    ]
    for number in (signal.SIGTERM, signal.SIGKILL):
        for pid in leftovers:
            if _bears(mark, pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, number)
        give_up_at = time.monotonic() + GRACE_S
        while any(_bears(mark, pid) for pid in leftovers) and time.monotonic() < give_up_at:
            time.sleep(POLL_S)
    folder.forget_processes()
    return leftovers


def _bears(mark: str, pid: int) -> bool:
    return mark in _arguments(pid)


def _arguments(pid: int) -> list[str]:
    """The command line of a process; nothing for one that is gone."""
    if Path("/proc/self/cmdline").exists():
        with suppress(OSError):
            return os.fsdecode(Path(f"/proc/{pid}/cmdline").read_bytes()).split("\0")
        return []
    listed = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False
    )
    return [listed.stdout]
