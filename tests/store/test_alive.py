"""The health check of containers: has this host a process whose heartbeat still counts?"""

import pytest
from pydantic import SecretStr

from orchestrator.alive import is_alive
from orchestrator.settings import Settings
from orchestrator.storage.valkey import ValkeyStore
from orchestrator.store import Presence


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url)


async def test_a_heartbeat_of_this_host_counts(store: ValkeyStore, settings: Settings) -> None:
    await store.beat(Presence("engine", "here-1", {"host": "here"}), 60_000)
    assert await is_alive(settings, "engine", "here")


async def test_other_hosts_and_other_kinds_do_not_count(
    store: ValkeyStore, settings: Settings
) -> None:
    await store.beat(Presence("engine", "there-1", {"host": "there"}), 60_000)
    await store.beat(Presence("worker", "here-1", {"host": "here"}), 60_000)
    assert not await is_alive(settings, "engine", "here")
