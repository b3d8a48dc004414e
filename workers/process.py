"""The process worker: it forks a child per call, which it can end at any time.

What was measured about RQ 3.0 and is made good here: it gives a tool that swallows its time-out
another minute, and may signal its own process group instead of the child's.
"""

import math
import os
import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Any, Final

import structlog
from rq.command import parse_payload
from rq.executions import Execution
from rq.job import Job, JobStatus
from rq.queue import Queue
from rq.worker import Worker

from orchestrator.dispatch.job_format import brief_retry
from workers.bench import Bench
from workers.call_worker import CallWorker, call_of
from workers.inherited import cut_connections, warn_of_leftovers
from workers.ledger import Left

WAKE_S: Final = 5
"""An idle worker does its duties so often, or twice per lease if that is more often."""

WATCH_S: Final = 1
"""A busy worker looks after its child so often. RQ takes whole seconds."""

log = structlog.get_logger(__name__)


class ProcessWorker(CallWorker, Worker):
    """Serves one queue until SIGTERM, which lets it finish its call within the grace time."""

    def __init__(self, queue: str, bench: Bench) -> None:
        warn_of_leftovers()
        wake_s = min(WAKE_S, math.ceil(bench.settings.call_lease_s / 2))
        super().__init__(queue, bench, wake_s, WATCH_S)
        self._ending = ""
        self._kill_at = float("inf")
        self._has_call = False

    def fork_work_horse(self, job: Job, queue: Queue) -> None:
        """Fork the child, in a process group of its own before anybody may signal it."""
        super().fork_work_horse(job, queue)
        with suppress(ProcessLookupError, PermissionError):
            os.setpgid(self.horse_pid, self.horse_pid)

    def main_work_horse(self, job: Job, queue: Queue) -> None:
        """In the child: do the job. What counts of it does not need the queue server, so the child
        does not wait for that as its parent does (which may be gone: nobody would end the child).
        """
        cut_connections()
        self.connection.set_retry(brief_retry())
        super().main_work_horse(job, queue)

    def monitor_work_horse(self, job: Job, queue: Queue, execution: Execution) -> None:
        """Wait for the child. However it ended, its call then has an answer or another try."""
        self._ending = "unknown"
        self._kill_at = float("inf")
        self._has_call = True
        job.timeout = -1  # RQ's limit out here goes by the host's clock, the call's does not
        try:
            super().monitor_work_horse(job, queue, execution)
        finally:
            left = self._settle(job)
            self._has_call = False
        if left is not Left.UNCLAIMED:
            queue.intermediate_queue.remove(job.id)
        if left is Left.UNANSWERED and job.get_status() is JobStatus.STARTED:
            # RQ takes exit code 0 for success, and would leave the job as it is.
            self.handle_job_failure(job, queue, exc_string="No answer.", execution=execution)

    def maintain_heartbeats(self, job: Job, execution: Execution) -> None:
        """Every second of a call: keep it, or end the child when it is not ours any more, or does
        not even claim it, or when the grace time of a worker that stops is over.
        """
        self._ledger.announce()
        call = call_of(job)
        is_gone = call is not None and bool(self._ledger.keep(call))
        if is_gone or self._ledger.is_stuck(job.id) or time.monotonic() >= self._stop_at:
            self._stop_child(job.id)
        if time.monotonic() >= self._kill_at or self._ledger.is_overdue(job.id):
            log.warning("child.killed", tool_call_id=job.id)
            self.kill_horse()
        self.hastily(super().maintain_heartbeats, job, execution)

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

    def handle_payload(self, message: dict[Any, Any]) -> None:
        """In RQ's own thread: stop the call, where RQ would kill the child at once."""
        payload = parse_payload(message)
        if payload["command"] != "stop-job":
            super().handle_payload(message)  # type: ignore[no-untyped-call]
        elif payload.get("job_id") == self.get_current_job_id():
            self._stopped_job_id = payload["job_id"]
            self._stop_child(payload["job_id"])

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM or SIGINT: end now if idle, else after the call."""
        self.note_stop()
        super().request_stop(signum, frame)  # type: ignore[no-untyped-call]

    def request_force_stop(self, signum: int, frame: FrameType | None) -> None:
        """A second signal ends the call as well, where RQ would drop what it is at just now."""
        if self._has_call:
            self._stop_at = 0.0
        else:
            super().request_force_stop(signum, frame)

    def teardown(self) -> None:
        """Sign off; in the child there is nothing to sign off."""
        if not self.is_horse:
            super().teardown()

    def _stop_child(self, call_id: str) -> None:
        """Ask the child to end; it is killed when its tool has had the time to clean up."""
        if self._kill_at < float("inf"):
            return
        self._kill_at = time.monotonic() + self._ledger.cleanup_s(call_id)
        log.info("call.stopped", tool_call_id=call_id)
        if self.horse_pid:
            with suppress(ProcessLookupError):
                os.kill(self.horse_pid, signal.SIGTERM)

    def _settle(self, job: Job) -> Left:
        call = call_of(job)
        how = "it was stopped" if self._kill_at < float("inf") else self._ending
        return Left.NOTHING if call is None else self._ledger.settle(call, how)


def _ending(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    return f"exit code {code}" if code >= 0 else f"killed by {signal.Signals(-code).name}"
