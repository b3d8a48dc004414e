"""A store and queues over TLS."""

from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr
from redis.exceptions import ConnectionError as NoConnection

from benchmarks.tls import make_certificate, tls_store, why_not
from orchestrator.dispatch.job_format import queue_client
from orchestrator.errors import StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.storage.valkey import connect, open_store


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if reason := why_not():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("tls")
    with tls_store(folder, make_certificate(folder)) as url:
        yield url


async def test_the_store_and_the_queues_are_there_for_those_who_trust_their_certificate(
    url: str,
) -> None:
    settings = Settings(redis_url=SecretStr(url))
    store = await open_store(settings)
    assert await store.present("worker") == ()
    await store.close()
    assert queue_client(settings).ping()


async def test_a_certificate_of_nobody_we_trust_is_refused(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(redis_url=SecretStr(urlsplit(url)._replace(query="").geturl()))
    with pytest.raises(StoreUnavailable, match="certificate verify failed"):
        await open_store(settings)
    with pytest.raises(NoConnection, match="certificate verify failed"):
        queue_client(settings).ping()


async def test_the_name_in_the_certificate_is_checked(url: str) -> None:
    same_place = Settings(redis_url=SecretStr(url.replace("127.0.0.1", "127.1")))
    with pytest.raises(StoreUnavailable, match="Hostname mismatch"):
        await open_store(same_place)
    with pytest.raises(NoConnection, match="Hostname mismatch"):
        queue_client(same_place).ping()


async def test_whom_we_trust_is_read_once_for_all_connections(url: str) -> None:
    settings = Settings(redis_url=SecretStr(url))
    pools: list[Any] = [connect(settings.redis_url).connection_pool for _ in range(2)]
    trusted = [pool.make_connection().ssl_context.get() for pool in pools]
    for client in (queue_client(settings), queue_client(settings)):
        used: Any = client.connection_pool.get_connection()
        trusted.append(used._sock.context)
    assert len({id(context) for context in trusted}) == 1
