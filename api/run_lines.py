"""Lists of runs for operators, with what clients are not shown; by status and thread if asked."""

from typing import Final

from typing_extensions import TypedDict

from api.runs import on_time
from orchestrator.projection import public_status
from orchestrator.records import Price, Usage
from orchestrator.states import RunStatus
from orchestrator.store import PageQuery, RunView, Store

LOOKED_AT: Final = 1_000
"""So many runs one search looks at; the next one goes on where it ended."""
PAGE: Final = 100


class CallCounts(TypedDict):
    """Tool calls of a run, by whether the model has its answer."""

    open: int
    settled: int


class RunLine(TypedDict):
    """A run in one line. ``total_tokens`` and ``cost_usd`` are ``null`` where they are not known,
    ``took_ms`` as long as the run has not ended.
    """

    id: str
    thread_id: str
    status: str
    internal_status: str
    created_at: int
    ended_at: int | None
    took_ms: int | None
    model: str
    tenant: str
    turns: int
    calls: CallCounts
    total_tokens: int | None
    cost_usd: float | None


class RunLines(TypedDict):
    """Runs, newest first. ``next``: what to give as ``after`` to read on; ``null`` at the end."""

    data: list[RunLine]
    next: str | None


async def find_runs(
    store: Store,
    limit: int,
    status: RunStatus | None = None,
    thread_id: str | None = None,
    after: str | None = None,
) -> RunLines:
    """The newest runs that have the status and are of the thread, at most ``limit``. Raises
    ``NotFound`` for the thread.
    """
    if thread_id:
        await store.load(thread_id)
    found: list[RunLine] = []
    looked_at = 0
    while True:
        query = PageQuery(PAGE if status else limit, after=after)
        page = await (store.list_runs(thread_id, query) if thread_id else store.recent_runs(query))
        for place, view in enumerate(page.items, 1):
            line = run_line(await on_time(store, view))
            after = line["id"]
            if status in {None, line["status"]}:
                found.append(line)
            if len(found) == limit:
                has_more = page.has_more or place < len(page.items)
                return RunLines(data=found, next=after if has_more else None)
        looked_at += len(page.items)
        if not page.has_more or looked_at >= LOOKED_AT:
            return RunLines(data=found, next=after if page.has_more else None)


def run_line(view: RunView) -> RunLine:
    """The run in one line."""
    run, price = view.run, view.spec.price
    settled = sum(call.is_settled for call in view.calls)
    usage = run.usage if run.turns else Usage()
    ended_ms = run.ended_ms
    return RunLine(
        id=run.id,
        thread_id=run.thread_id,
        status=public_status(run, view.calls),
        internal_status=run.status,
        created_at=run.created_ms // 1000,
        ended_at=ended_ms and ended_ms // 1000,
        took_ms=ended_ms and ended_ms - run.created_ms,
        model=view.spec.model,
        tenant=view.spec.tenant,
        turns=run.turns,
        calls=CallCounts(open=len(view.calls) - settled, settled=settled),
        total_tokens=usage.total_tokens if usage else None,
        cost_usd=_cost_usd(usage, price, run.turns),
    )


def _cost_usd(usage: Usage | None, price: Price | None, turns: int) -> float | None:
    if turns == 0:
        return 0.0
    return price.of(usage) if usage and price else None
