"""A real api on a real socket, and the official SDK as its client.

The SDK checks every answer strictly against its own models, so each test is a shape test as well.
"""

import asyncio
import warnings
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Final

import httpx2
import pytest
import uvicorn
from fastapi import FastAPI
from openai import AsyncOpenAI
from openai.types.beta import Assistant, Thread
from openai.types.beta.threads import Run
from pydantic import SecretStr
from starlette.types import ASGIApp

from api.app import create_app
from api.connection import Connect
from api.doorbell import Doorbell
from api.server import Server
from orchestrator.settings import ApiKey, Settings
from orchestrator.store import Store
from tests.engine.rig import EngineRoom
from tests.http.driver import Driver


@asynccontextmanager
async def serve(settings: Settings, connect: Connect) -> AsyncIterator[str]:
    """The api on a free port; gives its address."""
    app = create_app(settings, connect)
    async with serve_app(app, on_stop=app.state.doorbell.close) as address:
        yield address


@asynccontextmanager
async def serve_app(app: ASGIApp, on_stop: Callable[[], None] = lambda: None) -> AsyncIterator[str]:
    """The application on a free port; gives its address."""
    config = uvicorn.Config(
        app,
        port=0,
        log_config=None,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = Server(config, on_stop)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.wait({serving}, timeout=0.01)
    _, port = server.servers[0].sockets[0].getsockname()
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    await serving


@pytest.fixture(autouse=True)
def _no_deprecations() -> Iterator[None]:
    """The SDK says of each of these methods that the hosted service is gone; that is why we are."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*deprecated", category=DeprecationWarning)
        yield


@pytest.fixture
def settings(request: pytest.FixtureRequest, redis_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url, api_keys=getattr(request, "param", ()))


_NAMED: Final = tuple(ApiKey(secret=SecretStr(key), tenant="library") for key in ("any", "other"))

as_a_tenant = pytest.mark.parametrize("settings", [_NAMED], ids=["named keys"], indirect=True)
with_and_without_tenants = pytest.mark.parametrize(
    "settings", [(), _NAMED], ids=["no keys", "named keys"], indirect=True
)
"""For a whole module, whose clients send the key ``any``."""


@pytest.fixture
def app(settings: Settings, store: Store) -> FastAPI:
    async def connect() -> Store:
        return store

    return create_app(settings, connect)


@pytest.fixture
def doorbell(app: FastAPI) -> Doorbell:
    """What the api's waiting readers listen to."""
    doorbell: Doorbell = app.state.doorbell
    return doorbell


@pytest.fixture
async def address(app: FastAPI, doorbell: Doorbell) -> AsyncIterator[str]:
    async with serve_app(app, on_stop=doorbell.close) as address:
        yield address


@pytest.fixture
async def client(address: str) -> AsyncIterator[AsyncOpenAI]:
    async with AsyncOpenAI(
        base_url=f"{address}/v1",
        api_key="any",
        max_retries=0,
        _strict_response_validation=True,
    ) as client:
        yield client


@pytest.fixture
async def http(address: str) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=address) as client:
        yield client


@pytest.fixture
def driver(store: Store) -> Driver:
    return Driver(store)


@pytest.fixture
async def idle_engines(
    store: Store,
    settings: Settings,
    address: str,  # so that they end before the api, which closes their store
) -> AsyncIterator[EngineRoom]:
    """Engines of the test, to be started by it."""
    room = EngineRoom(store, settings)
    yield room
    await room.close()


@pytest.fixture
async def engines(idle_engines: EngineRoom) -> EngineRoom:
    """Engines of the test; one is at work."""
    idle_engines.start("engine-1")
    return idle_engines


@pytest.fixture
async def assistant(client: AsyncOpenAI) -> Assistant:
    return await client.beta.assistants.create(
        model="scripted/inline",
        tools=[
            {"type": "function", "function": {"name": "look_up"}},
            {"type": "function", "function": {"name": "measure"}},
        ],
    )


@pytest.fixture
async def thread(client: AsyncOpenAI) -> Thread:
    return await client.beta.threads.create()


@pytest.fixture
async def run(client: AsyncOpenAI, assistant: Assistant, thread: Thread) -> Run:
    return await client.beta.threads.runs.create(thread.id, assistant_id=assistant.id)
