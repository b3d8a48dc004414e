"""What is on the queues and who works on them: the same facts that ``rq info`` shows."""

import datetime as dt
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from redis import Redis
from redis.utils import str_if_bytes
from rq.job import Job
from rq.queue import Queue
from rq.utils import utcparse
from rq.worker import BaseWorker

from orchestrator.dispatch.job_format import SERIALIZER, open_queue


@dataclass(frozen=True, slots=True)
class WorkerReport:
    """A live worker. ``call_id`` and ``busy_s`` are those of the call that it has, if any."""

    name: str
    state: str
    call_id: str | None
    busy_s: float | None


@dataclass(frozen=True, slots=True)
class QueueReport:
    """A queue: ``depth`` calls wait, the oldest for ``oldest_age_s``; ``started`` have begun."""

    name: str
    depth: int
    oldest_age_s: float | None
    started: int
    workers: tuple[WorkerReport, ...]


def queue_report(client: Redis) -> tuple[QueueReport, ...]:
    """Every queue that has jobs, had jobs, or has workers, by name. For a thread: it blocks.

    Two or three round trips per queue and per worker. Ages go by the clocks of the hosts that wrote
    the times, as they do in RQ.
    """
    now = _now(client)
    serving: dict[str, list[WorkerReport]] = defaultdict(list)
    for worker in _Listed.all(connection=client, serializer=SERIALIZER):
        for name in worker.queue_names():
            serving[name].append(_worker_report(worker, now))
    known = {queue.name for queue in _Listed.queue_class.all(connection=client)}
    return tuple(
        _queue_report(client, name, serving[name], now) for name in sorted(known | serving.keys())
    )


@dataclass(frozen=True, slots=True)
class QueueLength:
    """``depth`` calls wait on the queue, the oldest of them for ``oldest_age_s``."""

    name: str
    depth: int
    oldest_age_s: float


def queue_lengths(client: Redis) -> tuple[QueueLength, ...]:
    """Every queue that has had jobs, by name. For a thread. Three round trips, however many."""
    now = _now(client)
    keys = sorted(str_if_bytes(key) for key in client.smembers(Queue.redis_queues_keys))
    with client.pipeline(transaction=False) as pipeline:
        for key in keys:
            pipeline.llen(key)
            pipeline.lindex(key, 0)
        replies = pipeline.execute() if keys else []
        oldest = [call_id for call_id in replies[1::2] if call_id is not None]
        for call_id in oldest:
            pipeline.hget(Job.key_for(str_if_bytes(call_id)), "enqueued_at")
        times = dict(zip(oldest, pipeline.execute() if oldest else [], strict=True))
    return tuple(
        QueueLength(key.removeprefix(Queue.redis_queue_namespace_prefix), depth, age_s)
        for key, depth, call_id in zip(keys, replies[::2], replies[1::2], strict=True)
        for age_s in [_age_of(times.get(call_id), now)]
    )


class _Listed(BaseWorker):
    """A worker as others see it. It never waits for jobs, so the client keeps its time-outs, which
    RQ otherwise raises to seven minutes.
    """

    @property
    def connection_timeout(self) -> int:
        return 0


def _now(client: Redis) -> dt.datetime:
    seconds, micros = client.time()
    return dt.datetime.fromtimestamp(seconds + micros / 1e6, tz=dt.UTC)


def _worker_report(worker: BaseWorker, now: dt.datetime) -> WorkerReport:
    executions = worker.get_current_executions()
    if not executions:
        return WorkerReport(worker.name, worker.get_state(), None, None)
    busy_s = _age_s(executions[0].created_at, now)
    return WorkerReport(worker.name, worker.get_state(), executions[0].job_id, busy_s)


def _queue_report(
    client: Redis, name: str, workers: Sequence[WorkerReport], now: dt.datetime
) -> QueueReport:
    queue = open_queue(name, client)
    oldest = next(iter(queue.get_jobs(0, 1)), None)
    return QueueReport(
        name=name,
        depth=queue.count,
        oldest_age_s=_age_s(oldest.enqueued_at, now) if oldest and oldest.enqueued_at else None,
        # Not registry.count: that one fails abandoned jobs in passing.
        started=queue.started_job_registry.get_job_count(cleanup=False),
        workers=tuple(sorted(workers, key=lambda worker: worker.name)),
    )


def _age_of(enqueued_at: bytes | None, now: dt.datetime) -> float:
    return _age_s(utcparse(enqueued_at.decode()), now) if enqueued_at else 0.0


def _age_s(then: dt.datetime, now: dt.datetime) -> float:
    return max(0.0, (now - then).total_seconds())
