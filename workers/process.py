"""The process worker: an RQ worker that forks a child per call, which it can end at any time.

RQ brings the jobs and keeps its own books (``rq info`` stays true); nothing that RQ thinks of a job
decides anything. What was measured about RQ 3.0 and is made good here: it loses jobs whose worker
dies just after the pop, ends at a lost connection, gives a tool that swallows its time-out another
minute, and may signal its own process group instead of the child's.
"""

import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import structlog
from redis import RedisError
from redis.backoff import ExponentialBackoff
from redis.retry import Retry
from rq.exceptions import StopRequested
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.worker import Worker

from orchestrator.dispatch.job_format import RESULT_TTL_S, SERIALIZER, brief_retry, queue_client
from orchestrator.store import RunRef
from workers.call_job import CallJob
from workers.job import BENCH, Bench
from workers.ledger import Ledger, Left

WAKE_S: Final = 5
"""An idle worker does its duties so often."""

WATCH_S: Final = 1
"""A busy one looks after its child so often. RQ takes whole seconds."""

MAINTENANCE_S: Final = 30

log = structlog.get_logger(__name__)


class ProcessWorker(Worker):
    """Serves one queue until SIGTERM, which lets it finish its call (a second one does not).

    One queue only: just then RQ's pop is safe against a crash.
    """

    def __init__(self, queue: str, bench: Bench) -> None:
        super().__init__(
            [queue],
            name=bench.worker,
            connection=queue_client(bench.settings, Retry(_Patience(cap=1, base=0.05), -1)),
            job_class=CallJob,
            serializer=SERIALIZER,
            default_result_ttl=RESULT_TTL_S,
            worker_ttl=WAKE_S + 15,  # RQ waits 15 seconds less than this for a job
            job_monitoring_interval=WATCH_S,
            maintenance_interval=MAINTENANCE_S,
            log_job_description=False,
        )
        BENCH.set(bench)
        self.is_told_to_stop = False
        self._hasty_client = queue_client(bench.settings)
        self._ledger = Ledger(bench, queue)
        self._ending = ""
        self._popped: set[str] = set()
        self._look_at = 0.0
        self._ledger.announce()

    # -- waiting for a job ----------------------------------------------------------------------

    def dequeue_job_and_maintain_ttl(
        self, timeout: int | None, max_idle_time: int | None = None
    ) -> tuple[Job, Queue] | None:
        """The next job, however long it takes; meanwhile say that this worker is alive."""
        del max_idle_time
        found = None
        while found is None:
            self._ledger.announce()
            self._put_back()
            if self.is_told_to_stop:  # what RQ raises for that may get lost in an event loop
                raise StopRequested
            found = super().dequeue_job_and_maintain_ttl(timeout, WAKE_S)
        return found

    def _put_back(self) -> None:
        """Queue jobs again that a worker popped, and then died before their calls were claimed.

        They are on the intermediate list at two looks, ``WAKE_S`` apart, and no worker has begun
        them. Putting a job back too often is harmless: it is refused at its claim.
        """
        if time.monotonic() < self._look_at:
            return
        self._look_at = time.monotonic() + WAKE_S
        queue = self.queues[0]
        begun = set(queue.started_job_registry.get_job_ids(cleanup=False))
        popped = set(queue.intermediate_queue.get_job_ids()) - begun
        for job_id in popped & self._popped:
            with self.connection.pipeline() as pipeline:
                pipeline.lrem(queue.intermediate_queue_key, 1, job_id)
                if queue.fetch_job(job_id) is not None:
                    queue.push_job_id(job_id, pipeline=pipeline)
                pipeline.execute()
            log.warning("job.put_back", tool_call_id=job_id)
        self._popped = popped

    def prepare_job_execution(self, job: Job, remove_from_intermediate_queue: bool = False) -> None:
        """Begin a job. It stays on the intermediate list until its call is seen to."""
        del remove_from_intermediate_queue
        super().prepare_job_execution(job, remove_from_intermediate_queue=False)

    # -- looking after the child ----------------------------------------------------------------

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """Fork the child, in a process group of its own before anybody may signal it."""
        super().fork_work_horse(job, queue)
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(self.horse_pid, self.horse_pid)

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        """In the child: do the job. What counts of it does not need the queue server, so the child
        does not wait for that as its parent does (which may be gone: nobody would end the child).
        """
        self.connection.set_retry(brief_retry())
        super().main_work_horse(job, queue)

    def monitor_work_horse(self, job: Job, queue: Queue, execution: Execution) -> None:
        """Wait for the child. However it ended, its call then has an answer or another try."""
        self._ending = "unknown"
        try:
            super().monitor_work_horse(job, queue, execution)
        finally:
            left = self._settle(job)
        if left is not Left.UNCLAIMED:
            queue.intermediate_queue.remove(job.id)
        if left is Left.UNANSWERED and job.get_status() is JobStatus.STARTED:
            # RQ takes exit code 0 for success, and would leave the job as it is.
            self.handle_job_failure(job, queue, exc_string="No answer.", execution=execution)

    def maintain_heartbeats(self, job: Job, execution: Execution) -> None:
        """Every second of a call: keep it, or end the child when it is not ours any more."""
        self._ledger.announce()
        call = _call_of(job)
        if call is not None and not self._ledger.keep(*call):
            log.warning("child.ended", tool_call_id=call[1])
            self.kill_horse()
        self._hastily(super().maintain_heartbeats, job, execution)

    def wait_for_horse(self) -> tuple[int | None, int | None, Any]:
        """Wait for the child, then end what it left of its process group.

        The child is looked at before it is reaped: so long its process id is nobody else's.
        """
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.horse_pid, os.WEXITED | os.WNOWAIT)
            self.kill_horse()
        pid, status, usage = super().wait_for_horse()
        if status is not None:
            self._ending = _ending(status)
        return pid, status, usage

    def kill_horse(self, sig: signal.Signals = signal.SIGKILL) -> None:
        """Signal the child and everything that it has started."""
        if self.horse_pid:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self.horse_pid, sig)

    def _settle(self, job: Job) -> Left:
        call = _call_of(job)
        return Left.NOTHING if call is None else self._ledger.settle(*call, how=self._ending)

    # -- ending ---------------------------------------------------------------------------------

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM or SIGINT: end now if idle, else after the call."""
        self.is_told_to_stop = True
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def set_shutdown_requested_date(self) -> None:
        """Nothing: a signal handler must not speak to the server in the middle of a command."""

    def teardown(self) -> None:
        """Sign off, if the servers are there."""
        if self.is_horse:
            return
        self._hastily(super().teardown)
        self._ledger.close()

    def _hastily(self, act: Callable[..., object], *args: object) -> None:
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


class _Patience(ExponentialBackoff):
    """Pauses between the tries to reach the queue server, for ever, with a line now and then."""

    def compute(self, failures: int) -> float:
        """The next pause in seconds."""
        if failures == 1 or failures % 30 == 0:
            log.warning("queue.unavailable", tries=failures)
        return float(super().compute(failures))


def _call_of(job: Job) -> tuple[RunRef, str] | None:
    return job.call if isinstance(job, CallJob) else None


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
