"""Whoever can write to the queue server cannot make workers run things, and jobs tell nothing."""

import json
import pickle
import zlib
from pathlib import Path
from typing import Any

import pytest
from rq.job import Job, JobStatus
from rq.registry import StartedJobRegistry

from orchestrator.dispatch.job_format import FUNCTION, SERIALIZER, open_queue
from orchestrator.records import CallState
from tests.waiting import until
from tests.workers.scene import Scene, noted

NOW = "2026-01-01T00:00:00.000000Z"


class TouchesAFile:
    """Unpickling it creates the file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (self.path,)


def plant(scene: Scene, queue: str, job_id: str, data: bytes, **fields: str) -> None:
    """Put a job on the queue as somebody would who does not use our code."""
    planted: dict[Any, Any] = {"data": zlib.compress(data), "origin": queue, "timeout": "5"}
    planted |= {"created_at": NOW, "enqueued_at": NOW, "status": "queued", **fields}
    scene.queue.hset(Job.key_for(job_id), mapping=planted)
    scene.queue.rpush(f"rq:queue:{queue}", job_id)


def job(scene: Scene, job_id: str) -> Job:
    return Job.fetch(job_id, connection=scene.queue, serializer=SERIALIZER)


async def failed(scene: Scene, job_id: str) -> bool:
    return job(scene, job_id).get_status() is JobStatus.FAILED


@pytest.mark.parametrize(
    ("queue", "name", "arguments"),
    [("tools", "add", {"a": 1, "b": 2}), ("tools-io", "wait", {"seconds": 0, "result": "3"})],
)
async def test_planted_jobs_are_not_run_and_the_worker_goes_on(
    scene: Scene, queue: str, name: str, arguments: dict[str, Any]
) -> None:
    pickled, commanded, called_back = (scene.folder / name for name in "abc")
    payload = pickle.dumps(TouchesAFile(pickled))
    command = json.dumps(["subprocess.getoutput", None, [f"touch {commanded}"], {}])
    innocent = json.dumps([FUNCTION, None, ["thread_x", "run_x", "call_x"], {}])
    call_backs = {
        f"{event}_callback_name": "tests.workers.toolbox.leave_a_mark"
        for event in ("success", "failure", "stopped")
    }
    plant(scene, queue, "pickled", payload)
    plant(scene, queue, "pickled_meta", innocent.encode(), meta=payload.decode("latin-1"))
    plant(scene, queue, "commanded", command.encode())
    plant(scene, queue, "called_back", innocent.encode(), **call_backs)
    for name_of_odd, odd in {"odd": [1, {}, "odd"], "odder": None}.items():
        plant(scene, queue, name_of_odd, json.dumps([FUNCTION, None, odd, {}]).encode())
    scene.queue.hset(Job.key_for("ghost"), "last_heartbeat", NOW)
    scene.queue.rpush(f"rq:queue:{queue}", "ghost", "nothing")
    plant(scene, queue, "nonsense", b"{}", timeout="soon", status="odd")
    asked = await scene.ask(name, **arguments)
    worker = scene.start_worker(queue, LEAVE_A_MARK_AT=str(called_back))
    assert await asked.output() == 3
    assert await until(lambda: failed(scene, "pickled"))
    assert await until(lambda: failed(scene, "commanded"))
    assert await until(lambda: failed(scene, "odder"))
    assert not any(path.exists() for path in (pickled, commanded, called_back))
    assert worker.poll() is None


async def test_queue_and_logs_hold_ids_only(scene: Scene) -> None:
    secret = "correct-horse-battery"
    scene.start_worker()
    asked = await scene.ask("fail", message=secret)
    waiting = await scene.ask("add", a=1, b=2)
    call = await asked.settled()
    assert call.state is CallState.FAILED
    assert secret in (call.error or "")
    await waiting.settled()
    assert asked.id.encode() in unpacked(scene)
    assert secret.encode() not in unpacked(scene)
    dumps = [scene.queue.dump(key) for key in scene.queue.scan_iter("rq:*")]
    assert not any(secret.encode() in (dump or b"") for dump in dumps)
    assert secret not in scene.log.read_text()
    assert scene.settings.redis_url.get_secret_value() not in scene.log.read_text()


def unpacked(scene: Scene) -> bytes:
    """What the job hashes hold, decompressed where it is compressed."""
    values: list[Any] = [
        value
        for key in scene.queue.scan_iter("rq:job:*")
        for value in scene.queue.hgetall(key).values()
    ]
    return b"".join(zlib.decompress(v) if v.startswith(b"\x78\x9c") else v for v in values)


async def test_a_job_names_its_call_is_bounded_in_time_and_has_nothing_else(scene: Scene) -> None:
    asked = await scene.ask("add", a=1, b=2)
    found = job(scene, asked.id)
    assert found.description == asked.id
    assert (found.func_name, found.args) == (
        FUNCTION,
        [asked.ref.thread_id, asked.ref.run_id, asked.id],
    )
    assert found.timeout is not None
    assert 60 <= found.timeout <= 70
    assert 0 < scene.queue.ttl(found.key) <= 60
    assert (found.result_ttl, found.failure_ttl) == (60, 3600)
    assert (found.retries_left, found.success_callback, found.webhooks) == (None, None, [])


async def test_a_finished_job_is_forgotten_by_itself(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("add", a=1, b=2)
    await asked.settled()

    async def is_done_with() -> bool:
        popped = open_queue("tools", scene.queue).intermediate_queue.get_job_ids()
        return job(scene, asked.id).get_status() is JobStatus.FINISHED and not popped

    await until(is_done_with)
    assert job(scene, asked.id).return_value() is None
    ephemeral = [key for key in scene.queue.scan_iter("rq:*") if asked.id.encode() in key]
    assert ephemeral
    assert all(0 < scene.queue.ttl(key) <= 120 for key in ephemeral)


async def test_a_finished_job_that_rq_takes_for_abandoned_is_not_done_again(scene: Scene) -> None:
    scene.start_worker()
    asked = await scene.ask("count_and_wait", path=str(scene.notes))
    call = await asked.settled()
    await until(lambda: finished(scene, asked.id))
    scene.queue.hset(Job.key_for(asked.id), "status", "started")
    scene.queue.zadd("rq:wip:tools", {f"{asked.id}:stale": 1})
    StartedJobRegistry("tools", connection=scene.queue, serializer=SERIALIZER).cleanup()
    assert await failed(scene, asked.id)
    assert await (await scene.ask("add", a=1, b=2)).output() == 3
    assert await asked.now() == call
    assert len(await noted(scene.notes)) == 1


async def finished(scene: Scene, job_id: str) -> bool:
    return job(scene, job_id).get_status() is JobStatus.FINISHED
