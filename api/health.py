"""Whether the process runs, and whether the whole can work."""

from typing import Literal

from fastapi import APIRouter, Request, Response
from typing_extensions import TypedDict

from api.answers import answer
from api.connection import StoreConnection
from orchestrator.errors import OurFault

router = APIRouter(tags=["health"])


class Health(TypedDict):
    """The process answers."""

    status: Literal["ok"]


class Readiness(TypedDict):
    """``missing`` names the parts without which no run gets on."""

    status: Literal["ready", "not_ready"]
    missing: list[str]


@router.get("/healthz", response_model=Health)
async def healthz() -> Response:
    """Says that this process runs, and nothing about the others."""
    return answer(Health(status="ok"))


@router.get("/readyz", response_model=Readiness, responses={503: {"model": Readiness}})
async def readyz(request: Request) -> Response:
    """Says whether the store answers and at least one engine is alive."""
    missing = await _missing(request.app.state.connection)
    status: Literal["ready", "not_ready"] = "not_ready" if missing else "ready"
    return answer(Readiness(status=status, missing=missing), status=503 if missing else 200)


async def _missing(connection: StoreConnection) -> list[str]:
    try:
        engines = await connection.store.present("engine")
    except OurFault:
        return ["store"]
    return [] if engines else ["engine"]
