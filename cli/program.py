"""Our processes as programs to run: which module, for which data folder."""

import asyncio
import os
import site
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
EXAMPLE_TOOLS: Final = "examples.quietreads.tools"
EXAMPLE_SCRIPTS: Final = ROOT / "examples" / "quietreads" / "scripts"
EXAMPLE_APP: Final = ROOT / "examples" / "quietreads" / "runstate.yaml"


class Role(StrEnum):
    """What a process is for. ``dev`` stops them in the order of ``supervisor.STOP_ORDER``."""

    STORE = "store"
    API = "api"
    ENGINE = "engine"
    WORKER = "worker"


@dataclass(frozen=True, slots=True)
class Program:
    """One process to start. Without a log it writes to our own stdout and stderr."""

    role: Role
    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str] = field(repr=False)
    log: Path | None = None
    is_restarted: bool = True


def python(module: str, *args: str, mark: str | None = None) -> tuple[str, ...]:
    """The command that runs one of our modules.

    ``-P`` keeps a folder ``api`` or ``workers`` of the user's project from being run instead. The
    mark changes nothing; it is there to recognise the process by (``leftovers`` does).
    """
    marking = ("-X", f"runstate={mark}") if mark else ()
    return (sys.executable, "-P", *marking, "-m", module, *args)


async def outcome(argv: Sequence[str], told: Mapping[str, str]) -> tuple[int | None, str, str]:
    """Runs a program to its end: the exit code, and what it says on stdout and on stderr."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=told,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, err = await process.communicate()
    return process.returncode, out.decode(errors="replace"), err.decode(errors="replace").strip()


def environment(**settings: str) -> dict[str, str]:
    """Our own environment with these changes, in which our modules can be imported."""
    merged = {**os.environ, **settings}
    if str(ROOT) not in site.getsitepackages():  # a checkout, not an installed package
        merged["PYTHONPATH"] = os.pathsep.join(
            part for part in (str(ROOT), merged.get("PYTHONPATH")) if part
        )
    return merged
