"""What both kinds of worker have in common: RQ's loop around one queue, made crash-safe.

RQ brings the jobs and keeps its own books (``rq info`` stays true); nothing that RQ thinks of a job
decides anything. What was measured about RQ 3.0 and is made good here: it loses jobs whose worker
dies just after the pop, and ends at a lost connection.
"""

import sys
import time
from collections.abc import Callable, Collection
from typing import Any, Final

import structlog
from redis import RedisError
from redis.backoff import ExponentialBackoff
from redis.exceptions import ResponseError
from redis.retry import Retry
from rq.exceptions import DequeueTimeout, StopRequested
from rq.executions import ExecutionRegistry
from rq.job import Job
from rq.queue import Queue
from rq.worker import BaseWorker
from rq.worker.base import WorkerStatus

from orchestrator.dispatch.job_format import RESULT_TTL_S, SERIALIZER, queue_client
from orchestrator.store import RunRef
from workers.bench import BENCH, Bench
from workers.call_job import CallJob
from workers.ledger import Ledger

RQ_TTL_S: Final = 60
SILENT_S: Final = 10
"""A worker that RQ has heard nothing of for so long is gone."""

MAINTENANCE_S: Final = 30

log = structlog.get_logger(__name__)


class CallWorker(BaseWorker):
    """Serves one queue until SIGTERM, or until it has had as many calls as one process should
    (``is_worn_out``). One only: just then RQ's pop is safe against a crash.

    ``wake_s``: an idle worker does its duties so often. ``watch_s``: RQ's time between two of its
    heartbeats for a job. Both in whole seconds, as RQ takes them.
    """

    def __init__(self, queue: str, bench: Bench, wake_s: int, watch_s: int) -> None:
        # A function of its own: redis-py copies whatever else it is given, deeply.
        patience = _Patience(lambda: self.wait_for_it())  # noqa: PLW0108
        super().__init__(
            [queue],
            name=bench.worker,
            connection=queue_client(bench.settings, Retry(patience, -1)),
            job_class=CallJob,
            serializer=SERIALIZER,
            default_result_ttl=RESULT_TTL_S,
            worker_ttl=wake_s + 15,  # RQ waits 15 seconds less than this for a job
            job_monitoring_interval=watch_s,
            maintenance_interval=MAINTENANCE_S,
            log_job_description=False,
        )
        BENCH.set(bench)
        self.is_told_to_stop = self.is_worn_out = False
        self._calls_left = bench.settings.worker_max_calls
        self._wake_s = wake_s
        self._look_s = bench.settings.call_lease_s / 2
        self._grace_s = bench.settings.worker_grace_s
        self._stop_at = float("inf")
        self._hasty_client = queue_client(bench.settings)
        self._ledger = Ledger(bench, queue)
        self._popped: set[str] = set()
        self._look_at = 0.0
        self._ledger.announce()

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """The next job, however long it takes; meanwhile say that this worker is alive."""
        del timeout, max_idle_time
        if self._calls_left == 0:
            self.is_worn_out = True
            raise StopRequested
        found = None
        while found is None:
            self.do_duties()
            if self.is_told_to_stop or self.refusal:  # what RQ raises may get lost in a loop
                raise StopRequested
            found = self._wait_for_job()
        if self._calls_left is not None:
            self._calls_left -= 1
        return found

    def _wait_for_job(self) -> tuple[Job, Queue] | None:
        """As RQ does, for ``wake_s``. RQ goes by the host's clock, and if that is put back, on and
        on.
        """
        self.set_state(WorkerStatus.IDLE)
        self.heartbeat()
        if self.should_run_maintenance_tasks:
            self.run_maintenance_tasks()  # type: ignore[no-untyped-call]
        try:
            found = self.queue_class.dequeue_any(
                self.queues,
                self._wake_s,
                self.connection,
                self.job_class,
                self.serializer,
                self.death_penalty_class,
            )
        except DequeueTimeout:
            return None
        except ResponseError as error:
            if not str(error).startswith("UNBLOCKED"):  # the server has become a replica
                raise
            return None
        if found is not None:
            version = self.get_redis_server_version()  # type: ignore[no-untyped-call]
            found[0].redis_server_version = version
        return found

    def get_heartbeat_ttl(self, job: Job, working_time: float = 0.0) -> int:
        """How long RQ's word of a job is good. RQ would subtract what it has lasted by the host's
        clock, and forget it when that is put forward.
        """
        del job, working_time
        return int(self.job_monitoring_interval) + RQ_TTL_S

    @property
    def refusal(self) -> str | None:
        """Why the store does not want this worker, which then ends after the calls that it has."""
        return self._ledger.refusal

    def do_duties(self) -> None:
        """What is to be done now and then between two jobs."""
        self._ledger.announce()
        self._put_back()

    def wait_for_it(self) -> None:
        """Called again and again while the queue server does not answer."""

    def _put_back(self) -> None:
        """Queue jobs again that a worker popped, and then died before their calls were claimed.

        They are on the intermediate list at two looks, half a lease apart, and no worker has begun
        them. Putting a job back too often is harmless: it is refused at its claim.
        """
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + self._look_s
        queue = self.queues[0]
        popped = set(queue.intermediate_queue.get_job_ids())
        popped -= self._begun(popped)
        for job_id in popped & self._popped:
            with self.connection.pipeline() as pipeline:
                pipeline.lrem(queue.intermediate_queue_key, 1, job_id)
                if queue.fetch_job(job_id) is not None:
                    queue.push_job_id(job_id, pipeline=pipeline)
                pipeline.execute()
            log.warning("job.put_back", tool_call_id=job_id)
        self._popped = popped

    def _begun(self, popped: Collection[str]) -> set[str]:
        """The jobs that live workers have. RQ's list of a job's executions is good for two minutes
        more than its heartbeats are apart, so what has less left has lost its worker. That goes by
        the server's clock, RQ's registry of all jobs by those of the hosts.
        """
        with self.connection.pipeline(transaction=False) as pipeline:
            for job_id in popped:
                pipeline.ttl(ExecutionRegistry(job_id, self.connection).key)
            lefts_s: list[int] = pipeline.execute() if popped else []
        least_s = 2 * RQ_TTL_S - SILENT_S
        return {job_id for job_id, left_s in zip(popped, lefts_s, strict=True) if left_s >= least_s}

    def prepare_job_execution(self, job: Job, remove_from_intermediate_queue: bool = False) -> None:
        """Begin a job. It stays on the intermediate list until its call is seen to."""
        del remove_from_intermediate_queue
        super().prepare_job_execution(job, remove_from_intermediate_queue=False)

    def note_stop(self) -> None:
        """SIGTERM or SIGINT has come: what is under way has the grace time from now."""
        self.is_told_to_stop = True
        self._stop_at = time.monotonic() + self._grace_s

    def set_shutdown_requested_date(self) -> None:
        """Nothing: a signal handler must not speak to the server in the middle of a command."""

    def teardown(self) -> None:
        """Sign off, if the servers are there."""
        self.hastily(super().teardown)
        self._ledger.close()

    def hastily(self, act: Callable[..., object], *args: object) -> None:
        """Do some of RQ's bookkeeping, or leave it when the queue server is away: leases and
        endings must not wait for it.
        """
        patient, self.connection = self.connection, self._hasty_client
        try:
            act(*args)
        except RedisError as error:
            log.warning("queue.unavailable", reason=type(error).__name__)
        finally:
            self.connection = patient


def call_of(job: Job) -> tuple[RunRef, str] | None:
    """The run and the id of the call; ``None`` for a job that is not ours."""
    return job.call if isinstance(job, CallJob) else None


class _Patience(ExponentialBackoff):
    """Pauses between the tries to reach the queue server, for ever, with a line now and then."""

    def __init__(self, on_pause: Callable[[], None]) -> None:
        super().__init__(cap=1, base=0.05)
        self._on_pause = on_pause

    def compute(self, failures: int) -> Any:
        """The next pause in seconds. redis-py asks while it handles what has gone wrong."""
        if failures == 1 or failures % 30 == 0:
            log.warning("queue.unavailable", tries=failures, reason=str(sys.exception()))
        self._on_pause()
        return super().compute(failures)
