"""What a tool call looks like on its queue: agreed between dispatch, which writes, and the workers.

A job carries ids only. Everything about the call is read from the ledger, under the claim.
"""

from typing import Final

from redis import Redis
from redis.backoff import ExponentialBackoff
from redis.exceptions import ReadOnlyError
from redis.retry import Retry
from rq.queue import EnqueueData, Queue
from rq.serializers import JSONSerializer

from orchestrator.settings import Settings
from orchestrator.store import RunRef
from orchestrator.tls import QueueConnection

FUNCTION: Final = "workers.job.execute"
"""The only function that workers run, by its dotted name."""

SERIALIZER: Final = JSONSerializer
"""RQ's default would unpickle, that is execute, whatever stands on the server."""

RESULT_TTL_S: Final = 60
"""A finished job costs the server 5.7 kB. Nothing reads it but an operator who looks right away."""

FAILURE_TTL_S: Final = 3_600

TIMEOUT_MARGIN_S: Final = 10
"""RQ's own time limit lies behind the call's, which the worker keeps."""


def queue_client(settings: Settings, retry: Retry | None = None) -> Redis:
    """A client for RQ, which connects at its first use and by default gives up after a second.

    It reads bytes, whatever the URL asks for: RQ expects them. Where a server has become a replica,
    it connects anew: the name may lead to the new primary.
    """
    url = settings.effective_queue_url.get_secret_value()
    tls = {"connection_class": QueueConnection} if url.startswith("rediss://") else {}
    client = Redis.from_url(
        url,
        socket_timeout=5,
        retry=retry or brief_retry(),
        retry_on_error=[ReadOnlyError],
        **tls,
    )
    client.connection_pool.connection_kwargs["decode_responses"] = False
    return client


def brief_retry() -> Retry:
    """Enough for a connection that has died, and for a server that is just being restarted."""
    return Retry(ExponentialBackoff(cap=0.5, base=0.1), 3)


def open_queue(name: str, client: Redis) -> Queue:
    """The RQ queue of this name."""
    return Queue(name, connection=client, serializer=SERIALIZER)


def job_data(ref: RunRef, call_id: str, left_s: int) -> EnqueueData:
    """The job of one call. ``left_s``: whole seconds until the run's deadline, 1 or more.

    Without a claim until then, the job drops out of the queue by itself.
    """
    return Queue.prepare_data(
        FUNCTION,
        args=[ref.thread_id, ref.run_id, call_id],
        job_id=call_id,
        description=call_id,
        timeout=left_s + TIMEOUT_MARGIN_S,
        ttl=left_s,
        result_ttl=RESULT_TTL_S,
        failure_ttl=FAILURE_TTL_S,
    )
