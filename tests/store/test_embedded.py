"""The embedded store: its data, its lock, its secrets, and who may start it."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from redis import Redis

from orchestrator.errors import StoreUnavailable
from orchestrator.storage import embedded
from orchestrator.storage.embedded import EmbeddedServer

STARTER = """
import json, os, signal, sys
from pathlib import Path
from orchestrator.storage.embedded import start
server = start(Path(sys.argv[1]))
print(json.dumps([server.pid, server.is_adopted]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def start() -> Iterator[Callable[..., EmbeddedServer]]:
    """``embedded.start``, and the end of every server that it gave."""
    servers: list[EmbeddedServer] = []

    def start_one(*args: Any, **options: Any) -> EmbeddedServer:
        servers.append(embedded.start(*args, **options))
        return servers[-1]

    yield start_one
    for server in servers:
        server.stop()


def connect(server: EmbeddedServer) -> Redis:
    return Redis.from_url(server.url.get_secret_value(), decode_responses=True)


def wait_until(is_true: Callable[[], bool], timeout_s: float = 10) -> None:
    give_up_at = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < give_up_at
        time.sleep(0.005)


def killed_starters(home: Path, count: int) -> list[tuple[int, bool]]:
    """Processes that start the server at the same time, report it, and die by SIGKILL.

    Pid and adoption of the server that each of them got.
    """
    with ExitStack() as stack:
        starters = [
            stack.enter_context(
                subprocess.Popen([sys.executable, "-c", STARTER, home], stdout=subprocess.PIPE)
            )
            for _ in range(count)
        ]
        return [json.loads(starter.communicate(timeout=30)[0]) for starter in starters]


def test_data_survives_a_killed_server(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    first = start(tmp_path)
    with connect(first) as client:
        client.set("kept", "yes")
    os.kill(first.pid, signal.SIGKILL)
    wait_until(lambda: not first.is_running())

    second = start(tmp_path)

    assert not second.is_adopted
    assert second.url == first.url
    with connect(second) as client:
        assert client.get("kept") == "yes"


def test_a_stopped_server_has_written_everything(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    first = start(tmp_path)
    with connect(first) as client:
        for number in range(100):
            client.rpush("numbers", number)
    first.stop()
    assert not first.is_running()
    with connect(start(tmp_path)) as client:
        assert client.llen("numbers") == 100


def test_four_racing_starters_get_one_server(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    reports = killed_starters(tmp_path, 4)
    start(tmp_path)
    assert len({pid for pid, _ in reports}) == 1
    assert sorted(is_adopted for _, is_adopted in reports) == [False, True, True, True]


def test_a_server_outlives_its_starter_and_is_adopted(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    ((pid, _),) = killed_starters(tmp_path, 1)

    adopted = start(tmp_path)

    assert (adopted.pid, adopted.is_adopted) == (pid, True)
    assert os.getsid(pid) == pid  # a Ctrl-C in the starter's terminal does not reach it
    adopted.stop()
    assert not adopted.is_running()


def test_the_last_start_decides_about_fsync(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    with connect(start(tmp_path)) as client:
        assert client.config_get("append*")["appendfsync"] == "everysec"
        start(tmp_path, fsync="always")
        assert client.config_get("append*")["appendfsync"] == "always"
        assert client.config_get("maxmemory-policy") == {"maxmemory-policy": "noeviction"}


def test_spaces_and_quotes_in_the_path_are_fine(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    home = tmp_path / "a b'c\"d\\e?f#g\nh%20é"
    server = start(home)
    with connect(server) as client:
        client.set("kept", "yes")
    server.stop()
    with connect(start(home)) as client:
        assert client.get("kept") == "yes"
    assert (home / "appendonlydir").is_dir()


def test_a_long_path_gets_a_loopback_port_and_keeps_it(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    home = tmp_path / ("long" * 30)
    first = start(home)
    assert first.address.startswith("127.0.0.1:")
    first.stop()
    second = start(home)
    assert second.url == first.url
    with connect(second) as client:
        assert client.ping()


def test_a_port_can_be_asked_for(tmp_path: Path, start: Callable[..., EmbeddedServer]) -> None:
    port = embedded.find_free_port()
    server = start(tmp_path, port=port)
    assert server.address == f"127.0.0.1:{port}"
    assert start(tmp_path).address == server.address  # an adopted server keeps its address


def test_a_busy_port_is_said_in_one_sentence(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    port = embedded.find_free_port()
    start(tmp_path / "one", port=port)
    with pytest.raises(StoreUnavailable, match=r"did not start: .*valkey.log"):
        start(tmp_path / "two", port=port)


def test_the_password_is_in_one_private_file_only(
    tmp_path: Path, start: Callable[..., EmbeddedServer]
) -> None:
    server = start(tmp_path)
    with connect(server) as client:
        client.set("kept", "yes")
    password = (tmp_path / "password").read_text()

    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path.name for path in files if password.encode() in path.read_bytes()] == ["password"]
    assert (tmp_path / "password").stat().st_mode & 0o777 == 0o600
    assert password in server.url.get_secret_value()
    assert password not in repr(server)
    commands = subprocess.run(
        ["ps", "-ww", "-o", "command=", "-p", str(server.pid)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert "valkey-server" in commands
    assert password not in commands


def test_a_wrong_password_is_refused(tmp_path: Path, start: Callable[..., EmbeddedServer]) -> None:
    server = start(tmp_path)
    url = server.url.get_secret_value().replace((tmp_path / "password").read_text(), "wrong")
    with Redis.from_url(url) as client, pytest.raises(Exception, match=r"WRONGPASS|invalid"):
        client.ping()


def test_a_platform_without_the_binary_is_told_what_to_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda _name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(StoreUnavailable, match="set RUNSTATE_REDIS_URL"):
        embedded.start(tmp_path)
    assert not (tmp_path / "password").exists()
