"""What a forked call has of its worker's connections, threads and locks."""

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest
from pydantic import SecretStr

from orchestrator.records import CallState, ToolSpec
from orchestrator.storage import embedded
from tests.workers.scene import Scene, noted

LEFTOVERS: Final = Path(__file__).with_name("leftovers.py")
NAMES: Final = ("use_the_connection", "take_the_lock", "take_the_mutex")
TIMES: Final = {"timeout_s": 0.3, "cleanup_s": 0.2}


@pytest.fixture(scope="module")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretStr]:
    """A server with a name, as in production."""
    folder = tmp_path_factory.mktemp("named")
    server = embedded.start(folder, port=embedded.find_free_port())
    yield SecretStr(server.url.get_secret_value().replace("127.0.0.1", "localhost"))
    server.stop()


CUTS = """
import os, socket
from workers.inherited import connections, cut_connections
one, other = socket.socketpair()
told, heard = socket.socketpair(type=socket.SOCK_DGRAM)
listening = socket.create_server(("127.0.0.1", 0))
socket.setdefaulttimeout(60)
assert sorted(connections()) == [one.fileno(), other.fileno()]
assert os.get_blocking(one.fileno())
cut_connections()
assert one.recv(1) == other.recv(1) == b""
told.send(b"x")
assert heard.recv(1) == b"x"
socket.create_connection(listening.getsockname()).close()
print("said")
"""


def test_nothing_is_cut_but_connections_and_a_process_may_still_speak() -> None:
    """Datagrams, whoever listens, and a standard output that is a connection stay."""
    output, ours = socket.socketpair()
    with output, ours:
        subprocess.run([sys.executable, "-c", CUTS], stdout=output.fileno(), check=True)
        assert ours.recv(4) == b"said"


class Peer:
    """The server that the module is connected to. ``heard`` ends with ``None`` at a hang-up."""

    def __init__(self) -> None:
        self.heard: list[bytes | None] = []
        self.writers: list[asyncio.StreamWriter] = []

    async def listen(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.writers.append(writer)
        self.heard.append(await reader.read(1) or None)


@pytest.fixture
async def peer(scene: Scene) -> AsyncIterator[Peer]:
    """It, and a worker of the module."""
    scene.tools = {name: ToolSpec(name=name, **TIMES) for name in NAMES}
    peer = Peer()
    server = await asyncio.start_server(peer.listen, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    scene.start_worker(tools=LEFTOVERS, LEFTOVERS_PORT=str(port))
    yield peer
    server.close()
    for writer in peer.writers:
        writer.close()


async def test_a_connection_of_the_module_is_cut_in_the_call_and_goes_on_in_the_worker(
    scene: Scene, peer: Peer
) -> None:
    for _ in range(2):
        asked = await scene.ask("use_the_connection")
        call = await asked.settled()
        assert (call.state, call.error) == (CallState.SUCCEEDED, None)
    assert (len(peer.writers), peer.heard) == (1, [])


async def test_a_worker_says_what_its_module_has_left_and_nothing_if_that_is_nothing(
    scene: Scene, peer: Peer
) -> None:
    await (await scene.ask("use_the_connection")).settled()
    said = scene.log.read_text()
    assert "tools.left_connections" in said
    assert "connections=1" in said
    assert "tools.left_threads" in said
    assert "['holder']" in said


async def test_a_module_that_leaves_nothing_is_not_spoken_of_and_a_worker_has_two_threads(
    scene: Scene,
) -> None:
    """Its own, and the one in which RQ listens to commands: what no thread holds at the fork, no
    call can wait for in vain.
    """
    worker = scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes), seconds=0.5)
    (child,) = await noted(scene.notes)
    assert [threads(worker.pid), threads(child)] == [2, 1]
    await asked.settled()
    assert "tools.left" not in scene.log.read_text()


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


@pytest.mark.parametrize("name", ["take_the_lock", "take_the_mutex"])
async def test_a_call_that_waits_for_a_lock_of_before_the_fork_ends_with_its_time(
    scene: Scene, peer: Peer, name: str
) -> None:
    asked = await scene.ask(name)
    call = await asked.settled()
    assert call.state is CallState.TIMED_OUT
    assert (await asked.output())["error"]["type"] == "timeout"
    assert (await (await scene.ask("use_the_connection")).settled()).state is CallState.SUCCEEDED
