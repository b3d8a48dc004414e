"""What was used and what it cost: by tenant, by model, by day, and of one thread."""

import datetime as dt
from collections import defaultdict
from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response
from typing_extensions import TypedDict

from api.answers import answer
from api.ownership import StoreDep
from orchestrator.days import day_of, days_between
from orchestrator.errors import InvalidValue
from orchestrator.records import Tally
from orchestrator.store import Store, UsageLine

By = Literal["tenant", "model", "day"]

DEFAULT_DAYS: Final = 30
MAX_DAYS: Final = 400
"""So long the sums of a day are kept."""

router = APIRouter(prefix="/ops", tags=["operations"])


class Sums(TypedDict):
    """``uncounted_turns``: their provider named no tokens. ``unpriced_turns``: their cost is not
    known; ``cost_usd`` is that of the others, ``null`` if there are none.
    """

    turns: int
    uncounted_turns: int
    unpriced_turns: int
    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int
    total_tokens: int
    cost_usd: float | None


class UsageRow(Sums):
    """The sums of one tenant, model or day."""

    name: str


UsageReport = TypedDict(
    "UsageReport",
    {"by": By, "from": str, "to": str, "data": list[UsageRow], "total": Sums},
)
"""The rows in order of their names. Days are of UTC, both ends included."""


class ThreadReport(TypedDict):
    """A thread as operators see it, and what its runs used since it began."""

    id: str
    created_at: int
    active_run_id: str | None
    waiting: int
    usage: Sums


@router.get("/usage", response_model=UsageReport)
async def report_usage(
    store: StoreDep,
    by: By = "tenant",
    first: Annotated[dt.date | None, Query(alias="from")] = None,
    last: Annotated[dt.date | None, Query(alias="to")] = None,
) -> Response:
    """What was used in a time; in the last thirty days if none is named."""
    return answer(await usage_report(store, by, first, last))


@router.get("/threads/{thread_id}", response_model=ThreadReport)
async def report_thread(thread_id: str, store: StoreDep) -> Response:
    """One thread."""
    thread = (await store.load(thread_id)).aggregate.thread
    report = ThreadReport(
        id=thread.id,
        created_at=thread.created_ms // 1000,
        active_run_id=thread.active_run_id,
        waiting=len(thread.waiting),
        usage=sums_of(thread.spent),
    )
    return answer(report)


async def usage_report(
    store: Store, by: By, first: dt.date | None, last: dt.date | None
) -> UsageReport:
    """The report on these days. Two round trips."""
    last = last or day_of(await store.now_ms())
    first = first or last - dt.timedelta(days=DEFAULT_DAYS - 1)
    days = days_between(first, last)
    if not 0 < len(days) <= MAX_DAYS:
        raise InvalidValue(
            f"'from' must be at most {MAX_DAYS} days before 'to', and not after it.", "from"
        )
    sums: defaultdict[str, Tally] = defaultdict(Tally)
    for line in await store.read_usage(days):
        name = _name(line, by)
        sums[name] = sums[name].plus(line.tally)
    total = Tally()
    for tally in sums.values():
        total = total.plus(tally)
    rows = [UsageRow(name=name, **sums_of(sums[name])) for name in sorted(sums)]
    return UsageReport(
        {"by": by, "from": days[0], "to": days[-1], "data": rows, "total": sums_of(total)}
    )


def sums_of(tally: Tally) -> Sums:
    """The sums as operators read them."""
    return Sums(
        turns=tally.turns,
        uncounted_turns=tally.uncounted_turns,
        unpriced_turns=tally.unpriced_turns,
        prompt_tokens=tally.prompt_tokens,
        cached_tokens=tally.cached_tokens,
        completion_tokens=tally.completion_tokens,
        total_tokens=tally.prompt_tokens + tally.completion_tokens,
        cost_usd=tally.cost_usd,
    )


def _name(line: UsageLine, by: By) -> str:
    return line.tenant if by == "tenant" else line.model if by == "model" else line.day or ""
