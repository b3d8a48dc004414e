"""The inline worker: async tools by the hundred, on one event loop in a thread of its own.

The main thread is RQ's: it pops jobs, keeps the leases and RQ's books, and has the last word on a
call whose tool cannot be interrupted. So no tool can block what keeps its worker alive.
"""

import asyncio
import threading
import time
from collections.abc import Coroutine
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Final

import structlog
from rq.command import parse_payload
from rq.executions import Execution
from rq.job import Job
from rq.queue import Queue
from rq.utils import as_text, now
from rq.worker import WorkerStatus

from orchestrator.ledger import WorkerLedger
from orchestrator.store import RunRef
from workers.bench import Bench
from workers.call_job import CallJob
from workers.call_worker import CallWorker, call_of
from workers.job import execute_inline
from workers.ledger import Left

WAKE_S: Final = 1
"""The main thread looks after the calls so often."""

POP_AT_ONCE: Final = 50
"""More than that is left to other workers, while RQ is told about these."""

BOOKS_S: Final = 5
"""RQ's own heartbeats for the jobs; they are good for 60 seconds more than that."""

log = structlog.get_logger(__name__)


@dataclass(slots=True, eq=False)
class Running:
    """A job under way. ``execution``: RQ's, once it has been told. ``task`` is set on the loop's
    thread; a stop sets ``abandon_at``, until when its tool may clean up.
    """

    job: Job
    queue: Queue
    ref: RunRef
    call_id: str
    execution: Execution | None = None
    task: "asyncio.Task[None] | None" = None
    abandon_at: float | None = None


class InlineWorker(CallWorker):
    """Serves one queue until SIGTERM, which lets it finish its calls within the grace time."""

    def __init__(self, queue: str, bench: Bench) -> None:
        self._bench = bench
        self._calls: WorkerLedger | None = None
        self._room = bench.settings.inline_concurrency
        self._running: dict[str, Running] = {}
        self._ended = SimpleQueue[Running]()
        self._looked_at = self._books_at = self._beat_at = self._suspension_at = 0.0
        self._is_answering = threading.Event()
        self._is_answering.set()
        self._loop = asyncio.new_event_loop()
        super().__init__(queue, bench, WAKE_S, BOOKS_S)
        threading.Thread(target=self._run_loop, name="tools", daemon=True).start()

    # -- RQ's hooks, in the main thread ---------------------------------------------------------

    def do_duties(self) -> None:
        """Look after the calls; wait here while there is no room for another one."""
        super().do_duties()
        self._look_after()
        while not self.is_told_to_stop and not (self._room and self._is_answering.is_set()):
            self._wait(WAKE_S)

    def execute_job(self, job: Job, queue: Queue) -> None:
        """Begin a job and those behind it: first all of the calls, then RQ's books about them."""
        begun = [(job, self._begin(job, queue)) for job in (job, *self._pop_more(queue))]
        for one, running in begun:
            self._open_books(one, queue, running)
            self._keep_leases()

    def wait_for_it(self) -> None:
        """The queue server is away, which must not cost the calls their leases."""
        self._keep_leases()

    @property
    def connection_timeout(self) -> int:
        """A wait for the queue server that is no pause must be short as well."""
        return WAKE_S + 2

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """RQ's sign of life, which it would give several times per job, once a second."""
        if pipeline is not None or time.monotonic() >= self._beat_at:
            self._beat_at = time.monotonic() + WAKE_S
            super().heartbeat(timeout, pipeline)

    def check_for_suspension(self, burst: bool) -> None:
        """``rq suspend``, which it would look for before each job, once a second."""
        if time.monotonic() >= self._suspension_at:
            self._suspension_at = time.monotonic() + WAKE_S
            super().check_for_suspension(burst)

    def set_state(self, state: str, pipeline: Any = None) -> None:
        """RQ calls a worker idle that waits for a job; this one may have others. It is told about
        changes only, and not several times per job.
        """
        if state == WorkerStatus.IDLE and self._running:
            state = WorkerStatus.BUSY
        if state != self.get_state():
            super().set_state(state, pipeline)

    def handle_payload(self, message: dict[Any, Any]) -> None:
        """In RQ's own thread: stop the call that is meant, where RQ would stop just the oldest."""
        payload = parse_payload(message)
        if payload["command"] in {"stop-job", "stop-execution"}:
            if running := self._running.get(payload.get("job_id", "")):
                self._stop(running)
        else:
            super().handle_payload(message)  # type: ignore[no-untyped-call]

    def request_stop(self, signum: int, frame: FrameType | None) -> None:
        """SIGTERM or SIGINT: pop no more jobs and let the calls end. A second one ends them."""
        del signum, frame
        if self.is_told_to_stop:
            self._stop_at = 0.0
        else:
            self.note_stop()

    def teardown(self) -> None:
        """Let the calls end, stop what is left when the grace time is over, and sign off."""
        while self._running and time.monotonic() < self._stop_at:
            self._wait(min(WAKE_S, max(0.0, self._stop_at - time.monotonic())))
        for running in tuple(self._running.values()):
            self._stop(running)
        give_up_at = max((x.abandon_at or 0.0 for x in self._running.values()), default=0.0)
        while self._running and time.monotonic() < give_up_at:
            self._wait(max(0.0, give_up_at - time.monotonic()))
        for running in tuple(self._running.values()):
            self._abandon(running)
        super().teardown()

    # -- beginning ------------------------------------------------------------------------------

    def _pop_more(self, queue: Queue) -> list[CallJob]:
        """The jobs that wait and for which there is room, in two round trips for all of them."""
        room = min(self._room - 1, queue.count, POP_AT_ONCE)
        if self._calls_left is not None:
            room = min(room, self._calls_left)
        with self.connection.pipeline(transaction=False) as pipeline:
            for _ in range(room):
                pipeline.lmove(queue.key, queue.intermediate_queue_key)
            popped = [as_text(job_id) for job_id in pipeline.execute() if job_id]
        if self._calls_left is not None:
            self._calls_left -= len(popped)
        return CallJob.fetch_sound(popped, self.connection, self.serializer)

    def _begin(self, job: Job, queue: Queue) -> Running | None:
        call = call_of(job)
        if call is None:
            return None
        running = self._running[job.id] = Running(job, queue, *call)
        self._room -= 1
        self._loop.call_soon_threadsafe(self._start, running)
        return running

    def _open_books(self, job: Job, queue: Queue, running: Running | None) -> None:
        """Tell RQ that the job has begun, or that it is none (and may not even be readable)."""
        execution = self.prepare_execution(job)
        if running is None:
            text = f"Job {job.id} is no tool call and is not run."
            self.handle_job_failure(job, queue, exc_string=text, execution=execution)
            queue.intermediate_queue.remove(job.id)
            return
        self.prepare_job_execution(job)
        job.started_at = now()
        running.execution = execution

    # -- looking after the calls ----------------------------------------------------------------

    def _wait(self, for_s: float) -> None:
        """Until a call ends, or so long; then see to it."""
        try:
            self._conclude(self._ended.get(timeout=for_s))
        except Empty:
            self._ledger.announce()
        self._look_after()

    def _look_after(self) -> None:
        while not self._ended.empty():
            self._conclude(self._ended.get())
        self._keep_leases()
        for running in tuple(self._running.values()):
            is_left = running.abandon_at and time.monotonic() > running.abandon_at
            if is_left or self._ledger.is_overdue(running.call_id):
                self._abandon(running)
        if time.monotonic() >= self._books_at:
            self._books_at = time.monotonic() + BOOKS_S
            for running in self._running.values():
                if running.execution is not None:
                    self.hastily(self.maintain_heartbeats, running.job, running.execution)

    def _keep_leases(self) -> None:
        if not self._running or time.monotonic() < self._looked_at + WAKE_S:
            return
        self._looked_at = time.monotonic()
        self._ask_loop()
        for call_id in self._ledger.keep(*((x.ref, x.call_id) for x in self._running.values())):
            self._stop(self._running[call_id])

    def _ask_loop(self) -> None:
        """Whether the loop still answers: a tool that blocks it keeps this worker from new jobs."""
        if not self._is_answering.is_set():
            log.warning("loop.blocked", calls=list(self._running))
        self._is_answering.clear()
        self._loop.call_soon_threadsafe(self._is_answering.set)
        self._is_answering.wait(0.1)

    def _stop(self, running: Running) -> None:
        if running.abandon_at is None:
            running.abandon_at = time.monotonic() + self._ledger.cleanup_s(running.call_id)
            log.info("call.stopped", tool_call_id=running.call_id)
            self._loop.call_soon_threadsafe(_cancel, running)

    def _abandon(self, running: Running) -> None:
        """Answer in the place of a tool that goes on all the same; its own answer will be late."""
        log.error("call.not_interruptible", tool_call_id=running.call_id)
        self._settle(running, "it could not be interrupted")
        self._close_books(running, is_done=False)

    def _conclude(self, running: Running) -> None:
        """See to a call whose task has ended."""
        self._room += 1
        if self._running.get(running.job.id) is not running:
            return  # abandoned before
        task = running.task
        is_done = task is not None and not task.cancelled() and task.exception() is None
        left = Left.NOTHING
        if is_done:
            self._ledger.forget(running.call_id)
        else:
            left = self._settle(running, "it was stopped")
        if left is not Left.UNCLAIMED:
            running.queue.intermediate_queue.remove(running.job.id)
        self._close_books(running, is_done)

    def _settle(self, running: Running, how: str) -> Left:
        return self._ledger.settle((running.ref, running.call_id), how)

    def _close_books(self, running: Running, is_done: bool) -> None:
        """Tell RQ how it ended."""
        del self._running[running.job.id]
        job, queue, execution = running.job, running.queue, running.execution
        if execution is None:
            return
        if is_done:
            self.hastily(self._finalize_success, job, queue, execution, None)
            return
        if running.abandon_at:
            self._stopped_job_id = job.id  # one slot, read by the next line
        job.ended_at = now()
        self.hastily(self.handle_job_failure, job, queue, None, "No answer.", execution)

    # -- in the loop's thread -------------------------------------------------------------------

    def _run_loop(self) -> None:
        """Run it for ever: a tool's own task may raise ``SystemExit``, which ends a loop."""
        while True:
            with suppress(BaseException):
                self._loop.run_forever()

    def _start(self, running: Running) -> None:
        running.task = self._loop.create_task(self._execute(running))
        running.task.add_done_callback(lambda _: self._ended.put(running))

    def _execute(self, running: Running) -> Coroutine[Any, Any, None]:
        if self._calls is None:
            self._calls = self._bench.connect_ledger(self._bench.settings)
        return execute_inline(self._bench, self._calls, running.ref, running.call_id)


def _cancel(running: Running) -> None:
    if running.task is not None:
        running.task.cancel()
