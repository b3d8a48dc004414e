"""From the outbox to the queue."""

from dataclasses import replace

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from orchestrator.decisions import SendCall, StopCall
from orchestrator.dispatch import Dispatcher
from orchestrator.dispatch.job_format import open_queue, queue_client
from orchestrator.dispatch.queues import queue_report
from orchestrator.errors import StoreUnavailable
from orchestrator.settings import Settings
from orchestrator.store import Parcel, Presence, RunRef, Ticket
from tests.workers.scene import Scene

REF = RunRef("thread_1", "run_1")


def parcel(order: SendCall | StopCall) -> Parcel:
    return Parcel(REF, order, Ticket(0, "1-1"))


async def waiting(scene: Scene, queue: str) -> list[str]:
    return open_queue(queue, scene.queue).get_job_ids()


async def test_calls_go_to_their_queues_in_order(scene: Scene) -> None:
    deadline_ms = await scene.store.now_ms() + 60_000
    sends = [("call_1", "a"), ("call_2", "b"), ("call_3", "a")]
    await scene.dispatcher.deliver(
        [parcel(SendCall(call_id, queue, deadline_ms)) for call_id, queue in sends]
    )
    assert await waiting(scene, "a") == ["call_1", "call_3"]
    assert await waiting(scene, "b") == ["call_2"]


async def test_a_call_whose_run_is_over_is_not_sent(scene: Scene) -> None:
    now_ms = await scene.store.now_ms()
    await scene.dispatcher.deliver([parcel(SendCall("call_1", "a", now_ms))])
    assert await waiting(scene, "a") == []


async def test_the_last_order_about_a_call_counts(scene: Scene) -> None:
    deadline_ms = await scene.store.now_ms() + 60_000
    send, stop = SendCall("call_1", "a", deadline_ms), StopCall("call_1", "a", None)
    await scene.dispatcher.deliver([parcel(send), parcel(stop)])
    assert await waiting(scene, "a") == []
    await scene.dispatcher.deliver([parcel(send)])
    assert await waiting(scene, "a") == ["call_1"]
    await scene.dispatcher.deliver([parcel(stop)])
    assert await waiting(scene, "a") == []
    assert not scene.queue.exists("rq:job:call_1")


async def test_what_may_be_lost_is_sent_again_only_if_it_is(scene: Scene) -> None:
    deadline_ms = await scene.store.now_ms() + 60_000
    send = SendCall("call_1", "a", deadline_ms)
    again = replace(send, is_repeat=True)
    await scene.dispatcher.deliver([parcel(send)])
    await scene.dispatcher.deliver([parcel(again)])
    assert await waiting(scene, "a") == ["call_1"]
    scene.queue.flushall()
    await scene.dispatcher.deliver([parcel(again)])
    assert await waiting(scene, "a") == ["call_1"]


async def test_a_worker_is_told_to_stop_a_call_that_is_sent_again_at_once(scene: Scene) -> None:
    deadline_ms = await scene.store.now_ms() + 60_000
    heard = scene.queue.pubsub()  # type: ignore[no-untyped-call]
    heard.subscribe("rq:pubsub:worker_1")
    heard.get_message(timeout=1)
    stop = StopCall("call_1", "a", "worker_1")
    await scene.dispatcher.deliver([parcel(stop), parcel(SendCall("call_1", "a", deadline_ms))])
    assert await waiting(scene, "a") == ["call_1"]
    assert b"stop-job" in (heard.get_message(timeout=1) or {})["data"]
    heard.close()


async def test_a_queue_that_no_worker_listens_to_is_noticed_at_dispatch(scene: Scene) -> None:
    deadline_ms = await scene.store.now_ms() + 60_000
    await scene.store.beat(Presence("worker", "w1", {"queue": "a"}), 60_000)
    sends = [parcel(SendCall("call_1", "a", deadline_ms)), parcel(SendCall("call_2", "b", 2**53))]
    with capture_logs() as logs:
        await scene.dispatcher.deliver(sends)
    told = [(line["event"], line["queue"]) for line in logs]
    assert told == [("queue.unserved", "b")]


async def test_options_in_the_url_do_not_disturb_rq(scene: Scene, redis_url: SecretStr) -> None:
    plain = redis_url.get_secret_value()
    url = f"{plain}{'&' if '?' in plain else '?'}decode_responses=true"
    scene.start_worker(RUNSTATE_QUEUE_URL=url)
    asked = await scene.ask("add", a=1, b=2)
    assert await asked.output() == 3
    reports = queue_report(queue_client(Settings(queue_url=SecretStr(url))))
    assert [report.name for report in reports] == ["tools"]


async def test_an_absent_queue_server_is_said_to_be_absent(scene: Scene) -> None:
    url = SecretStr("redis://127.0.0.1:1/0")
    dispatcher = Dispatcher(scene.store, Settings(queue_url=url))
    with pytest.raises(StoreUnavailable, match="queue server"):
        await dispatcher.deliver([parcel(SendCall("call_1", "a", 2**53))])
