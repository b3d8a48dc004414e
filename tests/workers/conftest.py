"""Real workers, forks and signals, on the real bundled server."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from orchestrator.settings import Settings
from orchestrator.store import Store
from tests.workers.scene import Scene


@pytest.fixture
def settings(redis_url: SecretStr) -> Settings:
    """A lease long enough for a busy machine, and short enough to wait for."""
    return Settings(redis_url=redis_url, call_lease_s=3)


@pytest.fixture
async def scene(store: Store, settings: Settings, tmp_path: Path) -> AsyncIterator[Scene]:
    """Where the test makes runs, and starts, stops and kills workers."""
    scene = Scene(store, settings, tmp_path)
    yield scene
    await scene.close()
