"""The doorbell: one channel per partition, rung by every commit of a run."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import structlog
from redis.asyncio import Redis
from redis.exceptions import RedisError

from orchestrator.decisions import Effect, QueueTurn, SendCall, StopCall
from orchestrator.records import Run
from orchestrator.storage.keys import Keys, Partition
from orchestrator.storage.pipelining import Command
from orchestrator.store import Ring, RunRef

RECONNECT_AFTER_S: Final = 0.2
"""Between attempts to subscribe again: short against every lease, long against a restart."""

log = structlog.get_logger(__name__)


def ring_write(home: Partition, run: Run, effects: Sequence[Effect]) -> Command:
    """The write that rings."""
    kinds = {type(effect) for effect in effects}
    has_turn, has_parcel = QueueTurn in kinds, not kinds.isdisjoint((SendCall, StopCall))
    payload = ring_payload(
        RunRef(run.thread_id, run.id), run.status, has_turn=has_turn, has_parcel=has_parcel
    )
    return ("PUBLISH", home.bell, payload)


def ring_payload(
    ref: RunRef, status: str, *, has_turn: bool = False, has_parcel: bool = False
) -> str:
    """What a stroke says: ``thread_1 run_1 queued 1 0`` tells of a turn and of no parcel."""
    return f"{ref.thread_id} {ref.run_id} {status} {has_turn:d} {has_parcel:d}"


async def listen(client: Redis, keys: Keys) -> AsyncGenerator[Ring]:
    """Every stroke, on one connection. ``Ring(None)`` whenever the subscription was made (again).

    A listener that is too slow is cut off by the server (32 MB behind) and subscribes again.
    """
    bells = [partition.bell for partition in keys.partitions]
    while True:
        pubsub = client.pubsub()
        try:
            await pubsub.subscribe(*bells)
            while True:
                _heed_cancellation()
                message = await pubsub.get_message(timeout=None)
                if message is None:
                    continue
                if message["type"] == "message":
                    yield _read_ring(message["data"].decode())
                elif message["channel"].decode() == bells[-1]:  # the last confirmation
                    yield Ring(None)
        except (RedisError, OSError) as error:
            log.warning("doorbell.lost", error=str(error))
            _heed_cancellation()
            await asyncio.sleep(RECONNECT_AFTER_S)
        finally:
            await pubsub.aclose()  # type: ignore[no-untyped-call]


def _heed_cancellation() -> None:
    """redis-py 8.1 sends through ``asyncio.wait_for``, which loses a cancellation that comes as
    it ends (gh-86296, until Python 3.12): whoever listens would go on for ever.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError


def _read_ring(payload: str) -> Ring:
    thread_id, run_id, status, has_turn, has_parcel = payload.split(" ")
    return Ring(RunRef(thread_id, run_id), status, has_turn == "1", has_parcel == "1")
