"""A whole server for the SDKs: the api under a recorder, and an engine with scripted models."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from fastapi import FastAPI

from api.doorbell import Doorbell
from orchestrator.settings import Settings
from orchestrator.store import Store
from tests.engine.rig import EngineRoom
from tests.http.conformance.recorder import Recorder
from tests.http.conftest import serve_app


@pytest.fixture(scope="session")
def sdk_cache(request: pytest.FixtureRequest) -> Path:
    """Where installed SDKs are kept between sessions."""
    cache: pytest.Cache = request.config.cache
    return cache.mkdir("sdks")


@pytest.fixture
def recorder(app: FastAPI) -> Recorder:
    return Recorder(app)


@pytest.fixture
async def address(
    recorder: Recorder, doorbell: Doorbell, settings: Settings, store: Store
) -> AsyncIterator[str]:
    async with serve_app(recorder, on_stop=doorbell.close) as address:
        room = EngineRoom(store, settings)
        room.start("engine-1")
        yield address
        await room.close()


async def play(*command: str, cwd: Path | None = None) -> None:
    """Run a client to its end; what it says is told when it fails."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        said, _ = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert process.returncode == 0, said.decode()
