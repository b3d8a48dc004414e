"""Engines on the real bundled server, with leases short enough to wait for."""

from collections.abc import AsyncIterator

import pytest
from pydantic import SecretStr

from orchestrator.settings import Settings
from orchestrator.store import Store
from tests.engine.rig import EngineRoom
from tests.llm.chat_server import ChatServer, serving


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    """Leases of half a second, a grace of a second."""
    return Settings(
        redis_url=redis_url,
        turn_lease_s=0.6,
        call_lease_s=0.6,
        cancel_watchdog_s=0.6,
        shutdown_grace_s=0.3,
    )


@pytest.fixture
async def engines(store: Store, settings: Settings) -> AsyncIterator[EngineRoom]:
    """Where the test starts, stops and kills engines."""
    room = EngineRoom(store, settings)
    yield room
    await room.close()


@pytest.fixture
async def provider(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ChatServer]:
    """An endpoint of models that speaks both wire formats."""
    monkeypatch.setenv("NO_PROXY", "*")
    async with serving() as server:
        yield server
