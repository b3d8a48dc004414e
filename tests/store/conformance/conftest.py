"""The suite's servers, and a check after each test that deleting leaves nothing behind."""

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

import fakeredis
import pytest
from pydantic import SecretStr
from redis.asyncio import Redis

from orchestrator.storage.valkey import ValkeyStore, connect
from orchestrator.store import PageQuery
from tests.conftest import PARTITIONS, PREFIX
from tests.leaks import left_keys, undeclared_keys
from tests.store.samples import delete_thread
from tests.store.servers import debian_redis, serve, serve_cluster

Open = Callable[[], ValkeyStore]


@dataclass(frozen=True, slots=True)
class Backend:
    """A server of the suite."""

    name: str
    client: Callable[[], Redis]

    @property
    def is_fake(self) -> bool:
        """Whether it is fakeredis, which knows no INFO, no CONFIG and no lost connections."""
        return self.name == "fakeredis"


@pytest.fixture(scope="session")
def debian_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretStr]:
    binary = debian_redis()
    if binary is None:
        pytest.skip("this system has no redis-server")
    with serve(binary, tmp_path_factory.mktemp("redis")) as url:
        yield url


@pytest.fixture(scope="session")
def cluster_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretStr]:
    with serve_cluster(tmp_path_factory.mktemp("cluster")) as url:
        yield url


@pytest.fixture(params=["valkey", "redis", "fakeredis", "cluster"])
def backend(request: pytest.FixtureRequest) -> Backend:
    name: str = request.param
    if name == "fakeredis":
        server = fakeredis.FakeServer()
        return Backend(name, lambda: fakeredis.FakeAsyncRedis(server=server, protocol=2))
    fixtures = {"valkey": "redis_url", "redis": "debian_url", "cluster": "cluster_url"}
    url: SecretStr = request.getfixturevalue(fixtures[name])
    return Backend(name, lambda: connect(url))


@pytest.fixture
async def open_another(backend: Backend) -> AsyncIterator[Open]:
    """Further stores on the same server, as other processes have them."""
    opened: list[ValkeyStore] = []

    def open_one() -> ValkeyStore:
        opened.append(ValkeyStore(backend.client(), PREFIX, PARTITIONS))
        return opened[-1]

    yield open_one
    for store in opened:
        await store.close()


@pytest.fixture
async def store(backend: Backend) -> AsyncIterator[ValkeyStore]:
    client = backend.client()
    await client.flushall()
    store = ValkeyStore(client, PREFIX, PARTITIONS)
    await store.prepare()
    yield store
    undeclared = await undeclared_keys(client, PREFIX)
    await _delete_everything(store)
    left = await left_keys(client, PREFIX)
    await store.close()
    assert (undeclared, left) == ([], [])


async def _delete_everything(store: ValkeyStore) -> None:
    while threads := (await store.list_threads(PageQuery(limit=100))).items:
        for thread in threads:
            await delete_thread(store, thread.id)
    await store.pipeliner.group(("DEL", partition.timers) for partition in store.keys.partitions)
    for assistant in (await store.list_assistants(PageQuery(limit=100))).items:
        await store.delete_assistant(assistant.id)
