"""Two worker hosts with networks of their own: one is cut off in the middle of its calls, and comes
back when they are not its own any more.
"""

import subprocess
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pydantic import SecretStr

from orchestrator.errors import StoreUnavailable
from orchestrator.records import CallState
from orchestrator.settings import Settings
from orchestrator.storage.embedded import find_binary, find_free_port
from orchestrator.storage.valkey import ValkeyStore, open_store
from tests.waiting import until
from tests.workers.hosts import KEY, Hosts
from tests.workers.networks import Host, two_hosts, why_not
from tests.workers.scene import TOOLBOX, Asked, Scene, noted
from tests.workers.test_loss import settled_by_timers

pytestmark = pytest.mark.skipif(bool(reason := why_not()), reason=reason or "")

LEASE_S = 3
LASTS_S = 2
"""The calls end while their host is cut off, and cannot say so."""

KINDS = {
    "tools": ("count_and_wait", "count_harmlessly"),
    "tools-io": ("count_and_wait_inline", "count_harmlessly_inline"),
}
"""Of each queue, a tool that may be executed once, and one that may be repeated."""


@dataclass
class Site:
    """A machine with the store and the queues, and the worker hosts A and B around it."""

    scene: Scene
    url: str
    a: Host
    b: Host
    apis: dict[str, Hosts] = field(default_factory=dict)

    async def start_apis(self) -> None:
        """Workers are given an api from now on, and not the store."""
        for host in (self.a, self.b):
            self.apis[host.name] = api = Hosts(self.scene, host.server)
            await api.start_api(RUNSTATE_API_KEYS="a-key-of-clients")

    def start_worker(self, host: Host, queue: str) -> "subprocess.Popen[bytes]":
        """A worker on this host."""
        url = self.url.format(host.server)
        given = {"RUNSTATE_QUEUE_URL": url, "RUNSTATE_CALL_LEASE_S": str(LEASE_S)}
        if api := self.apis.get(host.name):
            given |= {"RUNSTATE_API_URL": api.url, "RUNSTATE_WORKER_KEY": KEY}
        else:
            given |= {"RUNSTATE_REDIS_URL": url}
        module = ["workers", "--tools", str(TOOLBOX), "--queue", queue]
        return Hosts(self.scene).popen(module, given, on=host.command)


@contextmanager
def a_server(*addresses: str) -> Iterator[str]:
    """A server on all these addresses; its URL has a place for one of them."""
    port = find_free_port()
    options = ["--bind", *addresses, "--port", str(port), "--protected-mode", "no", "--save", ""]
    with subprocess.Popen([find_binary(), *options], stdout=subprocess.DEVNULL) as server:
        yield f"redis://{{}}:{port}/0"
        server.terminate()


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    with two_hosts() as (a, b), a_server("127.0.0.1", a.server, b.server) as url:
        settings = Settings(redis_url=SecretStr(url.format("127.0.0.1")), call_lease_s=LEASE_S)

        async def opened() -> ValkeyStore | None:
            try:
                return await open_store(settings)
            except StoreUnavailable:
                return None

        store = await until(opened)
        scene = Scene(store, settings, tmp_path)
        yield Site(scene, url, a, b)
        await scene.close()
        await store.close()


async def is_late(asked: Asked) -> None:
    """Returns once the output that came too late is on record."""

    async def look() -> bool:
        return [late.text for late in (await asked.now()).late] == ["counted"]

    await until(look, within_s=20)


@pytest.mark.parametrize(
    ("queue", "has_store"),
    [
        pytest.param("tools", True, id="processes with the store"),
        pytest.param("tools-io", True, id="inline with the store"),
        pytest.param("tools", False, id="processes with an api"),
    ],
)
async def test_a_host_that_is_cut_off_in_mid_call_loses_it_and_serves_again_when_it_is_back(
    site: Site, queue: str, has_store: bool
) -> None:
    scene = site.scene
    if not has_store:
        await site.start_apis()
    workers = [site.start_worker(site.a, queue) for _ in range(2 if queue == "tools" else 1)]
    arguments = {"path": str(scene.notes), "seconds": LASTS_S}
    once, harmless = await scene.ask_many([(name, arguments) for name in KINDS[queue]])
    await noted(scene.notes, 2)
    site.a.cut_off()
    other = site.start_worker(site.b, queue)

    assert (await settled_by_timers(once)).state is CallState.UNKNOWN
    repeated = await settled_by_timers(harmless)
    assert (repeated.state, repeated.attempts) == (CallState.SUCCEEDED, 2)
    assert len(await noted(scene.notes, 3)) == 3

    other.terminate()
    assert other.wait(timeout=10) == 0
    site.a.reconnect()
    await is_late(once)
    await is_late(harmless)
    assert (await once.now()).state is CallState.UNKNOWN
    assert (await harmless.now()).but(late=()) == repeated
    sound = await scene.ask_many([(KINDS[queue][0], {"path": str(scene.notes)})] * 2)
    for one in sound:
        assert (await one.settled(within_s=20)).state is CallState.SUCCEEDED
    assert len(await noted(scene.notes, 5)) == 5
    assert [worker.poll() for worker in workers] == [None] * len(workers)
