"""Servers that the launcher of the product does not start: another make, another mode."""

import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import SecretStr
from redis import Redis

from orchestrator.storage.embedded import find_binary, find_free_port

START_S = 10.0
EVERY_S = 0.01


def debian_redis() -> Path | None:
    """The redis-server of the system, if there is one."""
    found = shutil.which("redis-server")
    return Path(found) if found else None


@contextmanager
def serve(binary: Path, folder: Path, **options: str | int) -> Iterator[SecretStr]:
    """A server with these options, on a loopback port, with the folder for its data."""
    port = find_free_port()
    settings = {"port": port, "bind": "127.0.0.1", "dir": folder, "save": '""', **options}
    lines = [f"{name.replace('_', '-')} {value}" for name, value in settings.items()]
    process = subprocess.Popen([binary, "-"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    assert process.stdin is not None
    with process.stdin as stdin:
        stdin.write("\n".join(lines).encode())
    try:
        _wait_for_port(port)
        yield SecretStr(f"redis://127.0.0.1:{port}/0")
    finally:
        process.kill()
        process.wait()


@contextmanager
def serve_cluster(folder: Path) -> Iterator[SecretStr]:
    """The bundled server in cluster mode, one node with all slots: keys must share a slot."""
    with serve(find_binary(), folder, cluster_enabled="yes", cluster_port=find_free_port()) as url:
        with Redis.from_url(url.get_secret_value()) as client:
            client.cluster("addslotsrange", 0, 16383)
            _wait_for_cluster(client)
        yield url


def _wait_for_port(port: int) -> None:
    deadline = time.monotonic() + START_S
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < deadline
            time.sleep(EVERY_S)
        else:
            return


def _wait_for_cluster(client: Redis) -> None:
    deadline = time.monotonic() + START_S
    while client.cluster("info")["cluster_state"] != "ok":
        assert time.monotonic() < deadline
        time.sleep(EVERY_S)
