"""The way of a call from the outbox to its queue, and of a stop to whoever has the call."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import structlog
from redis import RedisError
from redis.client import Pipeline
from rq.command import send_command
from rq.job import Job, JobStatus

from orchestrator.decisions import SendCall, StopCall
from orchestrator.dispatch.job_format import job_data, open_queue, queue_client
from orchestrator.errors import StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.store import Parcel, Store, served_queues

_AHEAD: Final = {JobStatus.QUEUED.value.encode(), JobStatus.STARTED.value.encode()}
"""What RQ says of a job that is still to be done, or is just being done."""

log = structlog.get_logger(__name__)


class Dispatcher:
    """Delivers parcels. Delivering one twice is harmless: a call is claimed once, however many
    jobs there are for it, and who is told to stop a call that he does not have does nothing.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._client = queue_client(settings)

    async def deliver(self, parcels: Sequence[Parcel]) -> None:
        """Send and stop calls: one transaction on the queue server for all of them.

        A call whose run is over by the store's clock is not sent. Raises ``StoreUnavailable`` when
        the queue server does not answer; then the parcels may have been delivered or not.
        """
        now_ms = await self._store.now_ms()
        try:
            await asyncio.to_thread(self._deliver, parcels, now_ms)
        except RedisError as error:
            raise StoreUnavailable("The queue server did not answer.") from error
        await self._tell_unserved(parcels)

    async def _tell_unserved(self, parcels: Sequence[Parcel]) -> None:
        """Log the queues that calls were sent to, and no worker listens to."""
        sends = [parcel.order for parcel in parcels if isinstance(parcel.order, SendCall)]
        queues = {send.queue for send in sends}
        for queue in sorted(queues - await served_queues(self._store)) if queues else ():
            ids = [send.call_id for send in sends if send.queue == queue]
            log.warning("queue.unserved", queue=queue, tool_call_ids=ids)

    def _deliver(self, parcels: Sequence[Parcel], now_ms: int) -> None:
        last_orders = {parcel.order.call_id: parcel for parcel in parcels}
        there = self._still_there([parcel.order for parcel in last_orders.values()])
        sends: dict[str, list[tuple[Parcel, SendCall]]] = defaultdict(list)
        with self._client.pipeline() as pipeline:
            for parcel in parcels:
                is_last = last_orders[parcel.order.call_id] is parcel
                match parcel.order:
                    case SendCall() as send if is_last and send.call_id not in there:
                        sends[send.queue].append((parcel, send))
                    case StopCall() as stop if is_last or stop.worker:
                        self._stop(stop, pipeline)
            for queue, calls in sends.items():
                self._send(queue, calls, now_ms, pipeline)
            pipeline.execute()

    def _still_there(self, orders: Sequence[SendCall | StopCall]) -> set[str]:
        """Of the calls to be sent in case the queue has lost them: those that it has."""
        ids = [x.call_id for x in orders if isinstance(x, SendCall) and x.is_repeat]
        with self._client.pipeline(transaction=False) as pipeline:
            for call_id in ids:
                pipeline.hget(Job.key_for(call_id), "status")
            states = pipeline.execute() if ids else []
        return {call_id for call_id, state in zip(ids, states, strict=True) if state in _AHEAD}

    def _send(
        self,
        queue: str,
        calls: Sequence[tuple[Parcel, SendCall]],
        now_ms: int,
        pipeline: Pipeline,
    ) -> None:
        jobs = [
            job_data(parcel.ref, send.call_id, -(-left_ms // 1000))
            for parcel, send in calls
            if (left_ms := send.deadline_ms - now_ms) > 0
        ]
        if jobs:
            open_queue(queue, self._client).enqueue_many(jobs, pipeline=pipeline)

    def _stop(self, stop: StopCall, pipeline: Pipeline) -> None:
        """Tell the worker, or take the job off its queue. A job that is just between the two is
        refused at its claim.
        """
        if stop.worker is not None:
            send_command(pipeline, stop.worker, "stop-job", job_id=stop.call_id)
        else:
            open_queue(stop.queue, self._client).remove(stop.call_id, pipeline=pipeline)
            pipeline.delete(Job.key_for(stop.call_id))
