"""The SDKs that play a tour: where each comes from, and which operations it has not."""

import fcntl
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Final

import pytest

from tests.http.conformance.operations import OPERATIONS, Operation

HERE: Final = Path(__file__).parent
INSTALL_WITHIN_S: Final = 100


@dataclass(frozen=True, slots=True)
class Sdk:
    """A release of an SDK. ``pins`` is a file of clients/; none: it is in this environment.
    ``streams_not``: what it has no stream helper for.
    """

    name: str
    version: str
    tour: str
    pins: str | None = None
    lacks: frozenset[Operation] = frozenset()
    streams_not: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return f"{self.name} {self.version}"

    def command(self, cache: Path) -> list[str]:
        """What plays the tour, but for the address. Installs the SDK, or skips the test."""
        tour = str(HERE / "tours" / self.tour)
        if self.tour.endswith(".mjs"):
            return [*_node(cache), tour]
        python = sys.executable if self.pins is None else str(environment(self.pins, cache))
        return [python, "-W", "ignore", tour]


_ONLY_AZURE: Final = frozenset({Operation("GET", "/threads")})
_NEWER: Final = frozenset({Operation("DELETE", "/threads/{thread_id}/messages/{message_id}")})

SDKS: Final = (
    Sdk("openai (Python)", "1.21.0", "openai_python.py", "openai-1.txt", _ONLY_AZURE | _NEWER),
    Sdk("openai (Python)", "2.0.0", "openai_python.py", "openai-2.txt", _ONLY_AZURE),
    Sdk("openai (Python)", version("openai"), "openai_python.py", None, _ONLY_AZURE),
    Sdk("openai (Node)", "7.59.0", "openai_node.mjs", "node.txt", _ONLY_AZURE),
    Sdk(
        "azure-ai-agents",
        "1.1.0",
        "azure_python.py",
        "azure.txt",
        _NEWER,
        frozenset({"POST /threads/runs"}),
    ),
)


def offered(sdk: Sdk) -> list[Operation]:
    """What the SDK can ask for."""
    return [operation for operation in OPERATIONS if operation not in sdk.lacks]


def environment(pins: str, cache: Path) -> Path:
    """The interpreter of a virtual environment with these pins, made once and kept."""
    with _kept(pins, cache) as (folder, is_made):
        python = folder / "bin" / "python"
        if not is_made:
            venv.create(folder, with_pip=True)
            pip = [str(python), "-m", "pip", "--disable-pip-version-check", "install", "-q"]
            _install([*pip, "-r", str(HERE / "clients" / pins)], folder)
    return python


def suite(cache: Path) -> tuple[Path, Path]:
    """An interpreter with openai and pytest, and the folder of openai's sources, tests included."""
    pins = "openai-suite.txt"
    python = environment(pins, cache)
    folder = python.parents[1]
    lines = (HERE / "clients" / pins).read_text().splitlines()
    wanted = next(line for line in lines if line.startswith("openai=="))
    package = wanted.replace("==", "-")
    if not (folder / package).exists():
        pip = [str(python), "-m", "pip", "--disable-pip-version-check", "download", "-q"]
        flags = ["--no-deps", "--no-build-isolation", "--no-binary", "openai"]
        _install([*pip, *flags, wanted], folder)
        shutil.unpack_archive(folder / f"{package}.tar.gz", folder, filter="data")
    return python, folder / package


def _node(cache: Path) -> list[str]:
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("this system has no node with npm")
    with _kept("node.txt", cache) as (folder, is_made):
        if not is_made:
            wanted = (HERE / "clients" / "node.txt").read_text().split()
            flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(folder)]
            _install([npm, "install", *flags, *wanted], folder)
    return [node, "--import", f"{_entry(folder)}"]


def _entry(folder: Path) -> str:
    """A module that node loads first and that tells the tour where the package is."""
    entry = folder / "entry.mjs"
    entry.write_text("import OpenAI from 'openai'; globalThis.OpenAI = OpenAI;")
    return entry.as_uri()


@contextmanager
def _kept(pins: str, cache: Path) -> Iterator[tuple[Path, bool]]:
    """The folder of these pins, and whether it is complete. One process at a time makes it."""
    mark = sha256((HERE / "clients" / pins).read_bytes()).hexdigest()[:12]
    folder = cache / f"{Path(pins).stem}-{mark}"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        complete = folder / "complete"
        yield folder, complete.exists()
        complete.touch()


def _install(command: list[str], folder: Path) -> None:
    try:
        subprocess.run(
            command, cwd=folder, check=True, capture_output=True, timeout=INSTALL_WITHIN_S
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as problem:
        reason = (problem.stderr or b"no answer in time").decode().strip().splitlines()[-1]
        pytest.skip(f"the package registry gave nothing: {reason}")
