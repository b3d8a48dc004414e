"""Children are kept running, one by one, and stopped in order."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from itertools import pairwise
from pathlib import Path

import pytest

from cli.program import Program, Role
from cli.supervisor import Supervisor
from tests.cli.waits import until

SLEEPS = "import time; print('up', flush=True); time.sleep(60)"
NOTES_ITS_END = """
import pathlib, signal, sys, time
def end(number, frame):
    with open(sys.argv[1], "a") as order:
        order.write(sys.argv[2] + "\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
time.sleep(60)
"""
IGNORES_SIGTERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
time.sleep(60)
"""
OBEYS_THE_SECOND = """
import signal, sys, time
asked = []
def end(number, frame):
    asked.append(number)
    if len(asked) == 2:
        print("in a hurry", flush=True)
        sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    time.sleep(60)
"""


class Desk:
    """A supervisor, and what it was heard to say."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.said: list[str] = []
        self.changes = 0
        self.supervisor = Supervisor(self._count, self.said.append)

    def program(self, source: str, *args: str, role: Role = Role.ENGINE, name: str = "") -> Program:
        label = name or role.value
        log = self.folder / f"{label}.log"
        argv = (sys.executable, "-c", source, *args)
        return Program(role, label, argv, dict(os.environ), log)

    def has_written(self, name: str, text: str) -> bool:
        log = self.folder / f"{name}.log"
        return log.exists() and text in log.read_text()

    def _count(self) -> None:
        self.changes += 1


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Desk]:
    desk = Desk(tmp_path)
    yield desk
    for child in desk.supervisor.children:
        child.kill()
    await desk.supervisor.stop(grace_s=0)


async def test_a_killed_child_is_started_again(desk: Desk) -> None:
    desk.supervisor.start([desk.program(SLEEPS)])
    await until(lambda: bool(desk.supervisor.pids(Role.ENGINE)))
    (first,) = desk.supervisor.pids(Role.ENGINE)

    os.kill(first, signal.SIGKILL)

    await until(lambda: desk.supervisor.pids(Role.ENGINE) not in ([], [first]))
    assert desk.said == ["engine was ended by SIGKILL; starting it again"]
    assert desk.changes == 3  # up, down, up


async def test_a_child_that_was_to_stay_down_stays_down(desk: Desk) -> None:
    program = desk.program("raise SystemExit(3)")
    desk.supervisor.start(
        [Program(program.role, "x", program.argv, program.environment, is_restarted=False)]
    )
    await until(lambda: desk.supervisor.children[0].deaths == 1)
    await until(lambda: bool(desk.said))
    assert desk.said == ["x ended with code 3; it stays down, as asked"]
    assert desk.supervisor.pids(Role.ENGINE) == []


async def test_a_child_that_cannot_be_of_use_is_not_started_again(desk: Desk) -> None:
    desk.supervisor.start([desk.program("raise SystemExit(78)")])
    await desk.supervisor.end()
    assert desk.said == ["engine ended with code 78; it stays down, as it cannot be of use"]


async def test_a_child_that_keeps_dying_is_given_longer_and_longer_pauses(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.supervisor.MAX_PAUSE_S", 0.4)
    times: list[float] = []
    loop = asyncio.get_running_loop()
    desk.supervisor = Supervisor(lambda: None, lambda _text: times.append(loop.time()))
    desk.supervisor.start([desk.program("raise SystemExit(1)")])
    await until(lambda: len(times) == 4)
    pauses = [later - earlier for earlier, later in pairwise(times)]
    assert pauses[0] >= 0.1
    assert pauses[1] >= 0.2
    assert pauses[2] >= 0.4


async def test_children_stop_role_by_role(desk: Desk, tmp_path: Path) -> None:
    order = tmp_path / "order"
    roles = (Role.WORKER, Role.ENGINE, Role.API)
    desk.supervisor.start(
        [desk.program(NOTES_ITS_END, str(order), role.value, role=role) for role in roles]
    )
    await until(lambda: all(desk.has_written(role.value, "up") for role in roles))
    await desk.supervisor.stop(grace_s=10)
    assert order.read_text().split() == ["api", "engine", "worker"]
    assert all(child.deaths == 0 for child in desk.supervisor.children)
    assert desk.said == []


async def test_a_child_that_ignores_sigterm_is_killed_after_the_grace(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cli.supervisor.LAST_WORD_S", 0.1)
    desk.supervisor.start([desk.program(IGNORES_SIGTERM)])
    await until(lambda: desk.has_written("engine", "up"))
    (pid,) = desk.supervisor.pids(Role.ENGINE)
    await desk.supervisor.stop(grace_s=0.1)
    assert desk.supervisor.pids(Role.ENGINE) == []
    assert not is_alive(pid)


async def test_a_child_is_asked_twice_before_it_is_killed(desk: Desk) -> None:
    desk.supervisor.start([desk.program(OBEYS_THE_SECOND)])
    await until(lambda: desk.has_written("engine", "up"))
    await desk.supervisor.stop(grace_s=0.1)
    assert desk.has_written("engine", "in a hurry")


async def test_a_second_interruption_does_not_wait_for_the_grace(desk: Desk) -> None:
    desk.supervisor.start([desk.program(OBEYS_THE_SECOND, role=Role.API)])
    desk.supervisor.start([desk.program(SLEEPS, role=Role.WORKER)])
    await until(lambda: desk.has_written("api", "up") and desk.has_written("worker", "up"))
    stopping = asyncio.create_task(desk.supervisor.stop(grace_s=None))
    await asyncio.wait({stopping}, timeout=0.1)
    assert not stopping.done()

    stopping.cancel()

    await stopping
    assert desk.has_written("api", "in a hurry")
    assert desk.supervisor.pids(Role.WORKER) == []


async def test_a_child_has_a_session_of_its_own(desk: Desk) -> None:
    desk.supervisor.start([desk.program(SLEEPS)])
    await until(lambda: bool(desk.supervisor.pids(Role.ENGINE)))
    (pid,) = desk.supervisor.pids(Role.ENGINE)
    assert os.getsid(pid) == pid


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
