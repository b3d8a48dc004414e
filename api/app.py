"""The application: routes, error handlers and the gate, put together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from starlette.exceptions import HTTPException

from api import assistants, health, messages, ops, runs, steps, threads
from api.connection import Connect, StoreConnection
from api.errors import ErrorEnvelope, on_http_error, on_runstate_error
from api.gate import Gate
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
        async with connection.held():
            yield
        app.state.queue_client.close()

    connection = StoreConnection(connect)
    app = FastAPI(
        title="Runstate",
        description="Assistants-style runs, self-hosted.",
        lifespan=lifespan,
        redirect_slashes=False,
        responses={"4XX": {"model": ErrorEnvelope}, "5XX": {"model": ErrorEnvelope}},
    )
    app.state.settings = settings
    app.state.connection = connection
    app.state.queue_client = queue_client(settings)
    app.add_middleware(Gate, keys=settings.api_keys)
    app.add_exception_handler(RunstateError, on_runstate_error)
    app.add_exception_handler(RequestValidationError, on_validation_error)
    app.add_exception_handler(HTTPException, on_http_error)
    for room in (assistants, runs, threads, messages, steps):
        app.include_router(room.router, prefix="/v1", dependencies=[DOCUMENTED_KEY])
    app.include_router(ops.router, dependencies=[DOCUMENTED_KEY])
    app.include_router(health.router)
    return app
