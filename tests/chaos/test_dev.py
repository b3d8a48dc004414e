"""``runstate dev`` and ``runstate demo`` as whole processes: started, interrupted, killed."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from tests.chaos.dev import START_S, Dev, is_alive, replaced
from tests.cli.waits import until


def make_assistant(url: str) -> str:
    answer = httpx2.post(f"{url}/v1/assistants", json={"model": "scripted/echo"})
    made: str = answer.raise_for_status().json()["id"]
    return made


async def test_an_interruption_stops_every_process_and_keeps_the_data(dev: Dev) -> None:
    await dev.start()
    assert httpx2.get(f"{dev.url}/readyz").status_code == 200
    assistant_id = make_assistant(dev.url)
    pids = dev.pids()
    assert len(pids) == 4
    assert all(is_alive(pid) for pid in pids)

    assert dev.end(signal.SIGINT) == 0

    assert not any(is_alive(pid) for pid in pids)
    assert dev.processes() == {}
    await dev.start()
    answer = httpx2.get(f"{dev.url}/v1/assistants/{assistant_id}")
    assert answer.status_code == 200


async def test_nothing_secret_is_printed_or_written(dev: Dev) -> None:
    await dev.start()
    password = (dev.home / "store" / "password").read_text()
    assert f"export OPENAI_BASE_URL={dev.url}/v1" in dev.output.read_text()
    assert dev.end(signal.SIGTERM) == 0
    written = [path for path in dev.home.rglob("*") if path.is_file() and path.name != "password"]
    assert dev.home / "logs" / "engine.log" in written
    assert not [path for path in (dev.output, *written) if password in path.read_text("latin-1")]


async def test_keys_of_tenants_are_enough_to_start_with(
    dev: Dev, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RUNSTATE_API_KEYS", "library=key-of-the-library")
    await dev.start()
    answers = [
        httpx2.get(f"{dev.url}/v1/assistants", headers={"authorization": f"Bearer {key}"})
        for key in ("key-of-the-library", "library=key-of-the-library")
    ]
    assert [answer.status_code for answer in answers] == [200, 401]


async def test_a_killed_process_is_replaced_and_listed(dev: Dev) -> None:
    await dev.start()
    assistant_id = make_assistant(dev.url)
    for role in ("api", "engine", "workers", "store"):
        before = dev.processes()[role]
        os.kill(before[0] if isinstance(before, list) else before, signal.SIGKILL)
        await until(replaced(dev, role, before), START_S)

    await until(dev.is_ready, START_S)
    assert httpx2.get(f"{dev.url}/v1/assistants/{assistant_id}").status_code == 200


async def test_a_process_that_is_to_stay_down_stays_down(dev: Dev) -> None:
    await dev.start("--no-restart", "engine", "--no-restart", "store")
    store, (engine,) = dev.processes()["store"], dev.processes()["engine"]
    os.kill(engine, signal.SIGKILL)
    os.kill(store, signal.SIGKILL)
    await until(lambda: dev.said("engine was ended by SIGKILL; it stays down, as asked"))
    await until(lambda: dev.said("store ended; it stays down, as asked"))
    assert dev.processes()["engine"] == []
    assert dev.processes()["store"] is None


async def test_the_next_dev_clears_up_after_a_killed_one(dev: Dev) -> None:
    await dev.start()
    assistant_id = make_assistant(dev.url)
    store, *others = dev.pids()
    dev.end(signal.SIGKILL)
    assert all(is_alive(pid) for pid in (store, *others))

    await dev.start()

    assert not any(is_alive(pid) for pid in others)
    assert dev.processes()["store"] == store
    assert httpx2.get(f"{dev.url}/v1/assistants/{assistant_id}").status_code == 200


def test_tools_that_cannot_be_used_are_said_at_once(dev: Dev) -> None:
    assert dev.launch("--tools", "no_such_tools").wait(timeout=30) == 1
    last = dev.output.read_text().strip().splitlines()[-1]
    assert last.startswith("runstate: The tools of no_such_tools cannot be used: ")


def test_the_demo_plays_to_its_end_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "cli.main", "demo"],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("\nyou ") == done.stdout.count("run     completed") == 3
    assert done.stdout.count("\nquietreads ") >= 3
    assert "succeeded after" in done.stdout
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []
