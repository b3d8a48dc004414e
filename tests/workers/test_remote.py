"""Workers that are given the queue server and a key, and no store: real processes, real kills."""

import json
import os
import signal
import subprocess
from collections.abc import Iterator

import httpx2
import pytest
from pydantic import SecretStr

from orchestrator.commands import Cancel
from orchestrator.records import CallState
from orchestrator.settings import Settings
from orchestrator.shell import change_run
from orchestrator.storage import embedded
from tests.waiting import until
from tests.workers.hosts import NARROW, Hosts, environment_of
from tests.workers.scene import Scene, gone, noted
from tests.workers.test_loss import settled_by_timers
from tests.workers.test_slots import all_settled, under_way


@pytest.fixture(scope="module")
def queue_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecretStr]:
    """A server for the queues alone."""
    server = embedded.start(tmp_path_factory.mktemp("queues"))
    yield server.url
    server.stop()


@pytest.fixture
def settings(redis_url: SecretStr, queue_url: SecretStr) -> Settings:
    return Settings(redis_url=redis_url, queue_url=queue_url, call_lease_s=3)


@pytest.fixture
def hosts(scene: Scene) -> Hosts:
    scene.queue.flushall()
    return Hosts(scene)


async def test_a_run_completes(hosts: Hosts) -> None:
    await hosts.start_api()
    hosts.start_engine()
    hosts.start_worker()
    await until(lambda: hosts.scene.store.present("worker"), within_s=30)
    script = {
        "turns": [
            {"tool_calls": [{"name": "add", "arguments": {"a": 20, "b": 22}}]},
            {"text": "It is {{ outputs.add }}."},
        ]
    }
    functions = [{"type": "function", "function": {"name": "add"}}]
    async with httpx2.AsyncClient(base_url=f"{hosts.url}/v1") as http:
        made = await http.post("/assistants", json={"model": "scripted/inline", "tools": functions})
        said = [{"role": "user", "content": json.dumps(script)}]
        asked = {"assistant_id": made.json()["id"], "thread": {"messages": said}}
        run = (await http.post("/threads/runs", json=asked)).json()
        path = f"/threads/{run['thread_id']}"

        async def is_completed() -> bool:
            status: str = (await http.get(f"{path}/runs/{run['id']}")).json()["status"]
            return status == "completed"

        await until(is_completed, within_s=30)
        (answer, _) = (await http.get(f"{path}/messages")).json()["data"]
    assert answer["content"][0]["text"]["value"] == "It is 42."


async def test_the_store_is_not_in_the_environment_of_worker_and_child(hosts: Hosts) -> None:
    await hosts.start_api()
    worker = hosts.start_worker()
    asked = await hosts.scene.ask("count_and_wait", path=str(hosts.scene.notes), seconds=1)
    (child,) = await noted(hosts.scene.notes)
    for pid in (worker.pid, child):
        given = environment_of(pid)
        assert "RUNSTATE_REDIS_URL" not in given
        assert hosts.scene.settings.redis_url.get_secret_value() not in given.values()
    assert (await asked.settled()).state is CallState.SUCCEEDED


async def test_an_inline_worker_answers(hosts: Hosts) -> None:
    await hosts.start_api()
    hosts.start_worker("tools-io")
    asked = await hosts.scene.ask("wait", seconds=0.1, result="hello")
    call = await asked.settled()
    assert (call.state, call.drift) == (CallState.SUCCEEDED, None)


async def test_a_killed_execution_of_a_once_tool_is_not_repeated(hosts: Hosts) -> None:
    await hosts.start_api()
    hosts.start_worker()
    asked = await hosts.scene.ask("count_and_wait", path=str(hosts.scene.notes), seconds=60)
    (child,) = await noted(hosts.scene.notes)
    os.kill(child, signal.SIGKILL)
    call = await asked.settled(within_s=5)
    assert call.state is CallState.UNKNOWN
    assert call.error == "The tool ended without an answer: killed by SIGKILL."
    assert await noted(hosts.scene.notes) == [child]


async def test_a_harmless_call_goes_to_another_worker_when_its_own_is_killed(hosts: Hosts) -> None:
    await hosts.start_api()
    worker = hosts.start_worker()
    asked = await hosts.scene.ask("count_harmlessly", path=str(hosts.scene.notes), seconds=1)
    (child,) = await noted(hosts.scene.notes)
    worker.kill()
    os.kill(child, signal.SIGKILL)
    hosts.start_worker()
    call = await settled_by_timers(asked)
    assert (call.state, call.attempts) == (CallState.SUCCEEDED, 2)


async def test_an_api_that_is_killed_and_comes_back_during_a_call_loses_nothing(
    hosts: Hosts,
) -> None:
    api = await hosts.start_api()
    hosts.start_worker()
    asked = await hosts.scene.ask("count_and_wait", path=str(hosts.scene.notes), seconds=1)
    (child,) = await noted(hosts.scene.notes)
    api.kill()
    api.wait()
    await hosts.start_api()
    call = await asked.settled()
    assert (call.state, call.attempts, call.late) == (CallState.SUCCEEDED, 1, ())
    assert await noted(hosts.scene.notes) == [child]


@pytest.mark.parametrize(
    ("queue", "name"), [("tools", "hold_a_slot"), ("tools-io", "hold_a_slot_inline")]
)
async def test_only_so_many_calls_of_a_tool_run_at_once(
    hosts: Hosts, queue: str, name: str
) -> None:
    await hosts.start_api()
    for _ in range(3):
        hosts.start_worker(queue)
    path = hosts.scene.folder / "slots"
    asked = await hosts.scene.ask_many([(name, {"path": str(path), "seconds": 0.5})] * 5)
    assert set(await all_settled(*asked)) == {CallState.SUCCEEDED}
    assert {(await one.now()).attempts for one in asked} == {1}
    assert under_way(path) == ([], 2)


async def test_a_cancelled_call_is_stopped(hosts: Hosts) -> None:
    await hosts.start_api()
    hosts.start_worker()
    asked = await hosts.scene.ask("count_and_wait", path=str(hosts.scene.notes), seconds=60)
    (child,) = await noted(hosts.scene.notes)
    await change_run(hosts.scene.store, asked.ref, Cancel(5_000))
    await hosts.scene.deliver()
    await gone(child, within_s=5)


async def test_a_key_that_does_not_serve_the_tools_is_refused_at_the_start(hosts: Hosts) -> None:
    await hosts.start_api()
    narrow = hosts.start_worker(key=NARROW)
    assert await code(narrow) == os.EX_CONFIG
    assert "The key of RUNSTATE_WORKER_KEY does not serve add, " in hosts.scene.log.read_text()


async def test_workers_whose_key_is_refused_are_not_started_again(hosts: Hosts) -> None:
    await hosts.start_api()
    command = ["cli.main", "worker", "--tools", "examples.quietreads.tools", "--count", "2"]
    workers = hosts.popen(command, hosts.given_to_workers(key="wrong"))
    assert await code(workers) == os.EX_CONFIG
    log = hosts.scene.log.read_text()
    assert log.count("refuses the key of RUNSTATE_WORKER_KEY") == 2
    assert "runstate: No worker can serve these tools" in log


async def test_a_worker_whose_key_is_taken_away_ends(hosts: Hosts) -> None:
    api = await hosts.start_api()
    worker = hosts.start_worker()
    await (await hosts.scene.ask("add", a=1, b=2)).settled()
    api.terminate()
    api.wait()
    await hosts.start_api(RUNSTATE_WORKER_KEYS="another:*")
    assert await code(worker) == os.EX_CONFIG
    assert "refuses the key of RUNSTATE_WORKER_KEY" in hosts.scene.log.read_text()


async def code(process: "subprocess.Popen[bytes]") -> int:
    """The exit code, once there is one."""

    async def has_ended() -> bool:
        return process.poll() is not None

    await until(has_ended, within_s=30)
    return process.returncode
