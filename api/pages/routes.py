"""The pages' addresses, all below ``/ops/ui``."""

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine, Mapping
from importlib.resources import files
from typing import Annotated, Any, Final, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse, RedirectResponse

from api.auth import PAGES
from api.errors import TABLE, error_detail
from api.ops import queues_of
from api.ownership import FOR_OPERATORS, StoreDep, TenantDep
from api.pages.rendering import HEADERS, page
from api.pages.run_page import run_page
from api.run_lines import find_runs
from api.turns import turn_object
from api.usage import By, UsageRow, sums_of, usage_report
from orchestrator.errors import NotFound, RunstateError
from orchestrator.states import RunStatus
from orchestrator.store import Store

STATIC: Final = {
    "style.css": "text/css",
    "live.js": "text/javascript",
    "icon.svg": "image/svg+xml",
}

RUNS_A_PAGE: Final = 50


class PageRoute(APIRoute):
    """A route whose errors are pages as well."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, with its errors shown."""
        handle = super().get_route_handler()

        async def shown(request: Request) -> Response:
            try:
                return await handle(request)
            except RunstateError as error:
                return _problem(TABLE[type(error)].status, error_detail(error)["message"])
            except RequestValidationError:
                return _problem(400, "The address has a value that this page does not know.")

        return shown


router = APIRouter(prefix=PAGES, route_class=PageRoute, include_in_schema=False)
front = APIRouter(include_in_schema=False)


@front.get("/")
async def lead_browsers_on(request: Request) -> Response:
    """Browsers that ask for nothing in particular are shown the pages."""
    if "text/html" not in request.headers.get("accept", ""):
        raise HTTPException(404)
    return RedirectResponse(PAGES, 307)


@router.get("")
@router.get("/")
async def lead_on() -> Response:
    """The first page is that of the runs."""
    return RedirectResponse(f"{PAGES}/runs", 307)


@router.get("/static/{name}")
async def get_static(name: str) -> Response:
    """What the pages look like and how they stay fresh."""
    if name not in STATIC:
        raise HTTPException(404)
    content = files("api.pages").joinpath("static", name).read_bytes()
    headers = HEADERS | {"Cache-Control": "no-cache"}
    return Response(content, media_type=STATIC[name], headers=headers)


@router.get("/runs")
async def show_runs(
    store: StoreDep,
    tenant: TenantDep,
    find: str = "",
    status: RunStatus | Literal[""] = "",
    after: str | None = None,
) -> Response:
    """The newest runs, of one status, or of the thread whose id is looked for."""
    find = find.strip()
    if find.startswith("run_"):
        return RedirectResponse(f"{PAGES}/runs/{find}", 303)
    wanted = status or None
    if find:
        thread = (await store.load(find)).aggregate.thread
    lines, active = await asyncio.gather(
        find_runs(store, RUNS_A_PAGE, wanted, find or None, after), _active(store, tenant)
    )
    older = urlencode({"find": find, "status": status, "after": lines["next"] or ""})
    return page(
        "runs.html",
        runs=lines["data"],
        older=f"?{older}" if lines["next"] else None,
        is_first=after is None,
        find=find,
        spent=sums_of(thread.spent) if find else None,
        status=wanted,
        statuses=list(RunStatus),
        active=active,
    )


@router.get("/runs/{run_id}")
async def show_run(run_id: str, store: StoreDep, live: str = "on") -> Response:
    """One run, and all that explains it."""
    return await run_page(store, run_id, is_live=live != "off")


@router.get("/runs/{run_id}/turns/{number}")
async def show_turn(run_id: str, number: int, store: StoreDep) -> Response:
    """One model turn, with the request as its provider got it."""
    ref = await store.find_run(run_id)
    turn = await turn_object(store, ref, number)
    return page("turn.html", run_id=run_id, turn=turn)


@router.get("/runs/{run_id}/calls/{call_id}/output")
async def show_output(run_id: str, call_id: str, store: StoreDep) -> Response:
    """The whole of an output that the model was shown in part."""
    text = await store.read_full_output(await store.find_run(run_id), call_id)
    if text is None:
        raise NotFound("tool call", call_id)
    return PlainTextResponse(text, headers=HEADERS)


@router.get("/queues", dependencies=[FOR_OPERATORS])
async def show_queues(request: Request, store: StoreDep) -> Response:
    """The queues, who works on them, and which tools they serve."""
    queues, engines, workers, tools = await asyncio.gather(
        queues_of(request, store), store.present("engine"), store.present("worker"), store.tools()
    )
    return page(
        "queues.html",
        queues=queues["data"],
        unserved=queues["unserved"],
        engines=engines,
        hosts={worker.id: worker.info.get("host", "") for worker in workers},
        tools=sorted(tools.values(), key=lambda tool: (tool.queue, tool.name)),
        served={worker.info["queue"] for worker in workers},
    )


@router.get("/usage")
async def show_usage(
    store: StoreDep,
    by: By = "tenant",
    first: Annotated[dt.date | None, Query(alias="from")] = None,
    last: Annotated[dt.date | None, Query(alias="to")] = None,
) -> Response:
    """Tokens and costs."""
    report = await usage_report(store, by, first, last)
    return page("usage.html", report=report, most=_most_tokens(report["data"]))


@router.get("/{nowhere:path}")
async def show_nowhere(nowhere: str) -> Response:
    """Any other address."""
    return _problem(404, f"There is no page {PAGES}/{nowhere}.")


async def _active(store: Store, tenant: str | None) -> Mapping[RunStatus, int]:
    """How many runs of all tenants are under way; that is for the operator."""
    return (await store.census()).active if tenant is None else {}


def _most_tokens(rows: list[UsageRow]) -> int:
    """Of one row; 1 if there are none, since the others are measured by it."""
    return max((row["total_tokens"] for row in rows), default=0) or 1


def _problem(status: int, message: str) -> Response:
    return page("problem.html", status, status=status, message=message)
