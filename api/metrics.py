"""``GET /metrics``, for Prometheus: read from the store at every scrape.

Nothing is counted in this process, which may be one of several, so every api says the same: scrape
one of them, or take the ``max`` of all. A scrape costs about ten round trips, however much is going
on.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Final

from fastapi import APIRouter, Request, Response
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector
from redis import RedisError

from api.ownership import FOR_OPERATORS, StoreDep
from orchestrator.dispatch.queues import QueueLength, queue_lengths
from orchestrator.states import FINAL, RunStatus
from orchestrator.store import Census, Presence, UsageLine

router = APIRouter(tags=["operations"])

_SUMS: Final = {
    "answered_turns": ("Model turns that were answered.", "turns", 1),
    "uncounted_turns": ("Of these, the provider named no tokens.", "uncounted_turns", 1),
    "unpriced_turns": ("Of these, the cost is not known.", "unpriced_turns", 1),
    "prompt_tokens": ("Tokens that models were sent.", "prompt_tokens", 1),
    "cached_tokens": ("Of these, those in the provider's cache.", "cached_tokens", 1),
    "completion_tokens": ("Tokens that models answered with.", "completion_tokens", 1),
    "cost_dollars": ("What is known of the cost.", "cost_micros", 1_000_000),
}
"""Counters by tenant and model: what they say, the sum that they show, its units in one of them."""


@dataclass(frozen=True, slots=True)
class Scrape(Collector):
    """Everything at one moment. ``queues``: ``None`` if their server did not answer."""

    census: Census
    engines: tuple[Presence, ...]
    workers: tuple[Presence, ...]
    queues: tuple[QueueLength, ...] | None
    usage: tuple[UsageLine, ...]

    def collect(self) -> Iterator[Metric]:
        """The metrics in the words of Prometheus."""
        yield _by("version", "build_info", "Which version this is.", [(_version(), 1)])
        yield from self._work()
        yield from self._queues()
        for name, (text, what, units) in _SUMS.items():
            family = CounterMetricFamily(f"runstate_{name}", text, labels=["tenant", "model"])
            for line in self.usage:
                amount = getattr(line.tally, what) / units
                family.add_metric([line.tenant, line.model], amount)
            yield family

    def _work(self) -> Iterator[Metric]:
        active = [(status, self.census.active.get(status, 0)) for status in _ACTIVE]
        yield _by("status", "runs", "Runs that have not ended, as clients see them.", active)
        turns = sum(int(engine.info.get("turns", 0)) for engine in self.engines)
        yield _one("turns_in_progress", "Model turns that engines have under way.", turns)
        yield _one("engines", "Engines that are alive.", len(self.engines))
        serving = Counter(worker.info["queue"] for worker in self.workers)
        yield _by("queue", "workers", "Workers that are alive.", serving.items())
        overdue = self.census.overdue_timers
        yield _one("overdue_timers", "Timers that no engine has looked for in time.", overdue)

    def _queues(self) -> Iterator[Metric]:
        is_up = self.queues is not None
        yield _one("queue_server_up", "Whether the server of the queues answered.", is_up)
        queues = self.queues or ()
        depths = [(queue.name, queue.depth) for queue in queues]
        yield _by("queue", "queue_depth", "Calls that wait for a worker.", depths)
        ages = [(queue.name, queue.oldest_age_s) for queue in queues]
        yield _by("queue", "queue_oldest_seconds", "The oldest of them waits so long.", ages)
        served = {worker.info["queue"] for worker in self.workers}
        unserved = [(name, depth) for name, depth in depths if name not in served]
        yield _by("queue", "unserved_calls", "Calls on a queue without a live worker.", unserved)


@router.get("/metrics", response_class=Response, dependencies=[FOR_OPERATORS])
async def report_metrics(request: Request, store: StoreDep) -> Response:
    """Figures for Prometheus."""
    census, engines, workers, usage, queues = await asyncio.gather(
        store.census(),
        store.present("engine"),
        store.present("worker"),
        store.read_usage(),
        _queues_of(request),
    )
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    text = encode(Scrape(census, engines, workers, queues, usage))
    return Response(text, headers={"content-type": content_type})


async def _queues_of(request: Request) -> tuple[QueueLength, ...] | None:
    try:
        return await asyncio.to_thread(queue_lengths, request.app.state.queue_client)
    except RedisError:
        return None


def _one(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(f"runstate_{name}", text, value)


def _by(label: str, name: str, text: str, values: Iterable[tuple[str, float]]) -> Metric:
    family = GaugeMetricFamily(f"runstate_{name}", text, labels=[label])
    for value_of_label, value in values:
        family.add_metric([value_of_label], value)
    return family


def _version() -> str:
    try:
        return version("runstate")
    except PackageNotFoundError:  # run from a folder that was never installed
        return "unknown"


_ACTIVE: Final = [status for status in RunStatus if status not in FINAL]
