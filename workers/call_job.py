"""Jobs as workers read them: a tool call, or nothing.

Whoever can write to the queue server can put any job there, and RQ would import and call whatever
function, call-back or webhook it names. So all of that is left unread here.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Self

from redis import Redis
from rq.exceptions import DeserializationError, NoSuchJobError
from rq.job import Job
from rq.utils import as_text

from orchestrator.dispatch.job_format import FUNCTION
from orchestrator.store import RunRef
from workers.job import execute

_FIELDS: Final = frozenset(
    {
        *("data", "origin", "description", "status", "worker_name"),
        *("created_at", "enqueued_at", "started_at", "ended_at", "last_heartbeat"),
        *("timeout", "ttl", "result_ttl", "failure_ttl"),
    }
)
"""What is read of a job's hash. No call-backs, webhooks, retries, dependents, groups, or meta."""


class CallJob(Job):
    """A job that can only be ``workers.job.execute``."""

    @property
    def func(self) -> Callable[[str, str, str], None]:
        """The function, if the job names the right one."""
        if self.func_name != FUNCTION:
            raise PermissionError(f"Job {self.id} does not name {FUNCTION} and is not run.")
        return execute

    @property
    def call(self) -> tuple[RunRef, str] | None:
        """The run and the id of the call; ``None`` for a job that is not ours."""
        try:
            match self.func_name, self.args:
                case str(name), [str(thread_id), str(run_id), self.id] if name == FUNCTION:
                    return RunRef(thread_id, run_id), self.id
        except DeserializationError:
            pass
        return None

    @classmethod
    def fetch_sound(cls, ids: Sequence[str], connection: Redis, serializer: Any) -> list[Self]:
        """Those of the jobs that are there and make sense, in one round trip."""
        with connection.pipeline(transaction=False) as pipeline:
            for job_id in ids:
                pipeline.hgetall(cls.key_for(job_id))
            hashes = pipeline.execute()
        found = []
        for job_id, raw in zip(ids, hashes, strict=True):
            job = cls(job_id, connection=connection, serializer=serializer)
            with suppress(NoSuchJobError):
                job.restore(raw)
                found.append(job)
        return found

    def restore(self, raw_data: Mapping[bytes, bytes]) -> Any:
        """Read the hash. One that makes no sense is no job: RQ passes over it and goes on."""
        known = {key: value for key, value in raw_data.items() if as_text(key) in _FIELDS}
        try:
            return super().restore(known)
        except Exception as error:
            raise NoSuchJobError(f"Job {self.id} cannot be read.") from error
