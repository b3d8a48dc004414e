"""The application: routes, error handlers and the gate, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from api import (
    assistants,
    health,
    messages,
    metrics,
    migration,
    ops,
    replays,
    runs,
    steps,
    threads,
    tool_calls,
    turns,
    usage,
    workers,
)
from api.connection import Connect, StoreConnection
from api.document import openapi_of
from api.doorbell import Doorbell
from api.errors import ErrorEnvelope, on_http_error, on_runstate_error
from api.gate import Gate
from api.pages import routes as pages
from api.streaming import routes as streaming
from api.streaming.readers import Readers
from api.validation import on_validation_error
from orchestrator.dispatch.job_format import queue_client
from orchestrator.errors import RunstateError
from orchestrator.settings import Settings

DOCUMENTED_KEY = Security(HTTPBearer(auto_error=False, description="A key of RUNSTATE_API_KEYS."))
"""For the OpenAPI document only: the gate checks the key, before anything is read or parsed."""


def create_app(settings: Settings, connect: Connect) -> FastAPI:
    """The api of one server. ``connect`` opens the store and is called until it succeeds."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with connection.held(), doorbell.hung(connection):
            yield
        app.state.queue_client.close()

    connection, doorbell = StoreConnection(connect), Doorbell()
    app = FastAPI(
        title="Runstate",
        description="Assistants-style runs, self-hosted.",
        lifespan=lifespan,
        redirect_slashes=False,
        responses={"4XX": {"model": ErrorEnvelope}, "5XX": {"model": ErrorEnvelope}},
    )
    app.state.settings = settings
    app.state.connection = connection
    app.state.doorbell = doorbell
    app.state.readers = Readers(doorbell, settings.keep_alive_s)
    app.state.queue_client = queue_client(settings)
    app.add_middleware(Gate, keys=settings.api_keys, worker_keys=settings.worker_keys)
    app.add_exception_handler(RunstateError, on_runstate_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_error)
    for room in (
        assistants, runs, replays, streaming, threads, messages, steps, tool_calls, turns,
    ):  # fmt: skip
        app.include_router(room.router, prefix="/v1", dependencies=[DOCUMENTED_KEY])
    for room in (ops, usage, metrics, migration):
        app.include_router(room.router, dependencies=[DOCUMENTED_KEY])
    for router in (health.router, workers.router, pages.router, pages.front):
        app.include_router(router)
    app.openapi = partial(openapi_of, app)  # type: ignore[method-assign]
    return app
