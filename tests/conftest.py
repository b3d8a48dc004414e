"""What every room gets: a real server, and a store on it that is empty when the test begins."""

from collections.abc import AsyncIterator, Iterator

import pytest
import structlog
from pydantic import SecretStr

from orchestrator.storage import embedded
from orchestrator.storage.valkey import ValkeyStore, connect
from tests.leaks import undeclared_keys

PREFIX = "rs"
PARTITIONS = 16

# The default renderer prints the local variables of every frame: minutes, for a large body.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretStr]:
    """The bundled server; it is there for the whole session."""
    server = embedded.start(tmp_path_factory.mktemp("valkey"))
    yield server.url
    server.stop()


@pytest.fixture
async def store(redis_url: SecretStr) -> AsyncIterator[ValkeyStore]:
    """A store with nothing in it. Whatever the test writes must be of a declared kind."""
    client = connect(redis_url)
    await client.flushall()
    store = ValkeyStore(client, PREFIX, PARTITIONS)
    await store.prepare()
    yield store
    leaked = await undeclared_keys(client, PREFIX)
    await store.close()
    assert not leaked
