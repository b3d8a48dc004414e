"""Tools that misbehave in every way that a tool can; the workers under test serve them."""

import asyncio
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from orchestrator import Retry, current_call, tool

_HALLS: dict[int, asyncio.Barrier] = {}


@tool(side_effects="none")
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool(side_effects="none", isolation="process", queue="tools")
async def add_slowly(a: int, b: int) -> dict[str, int]:
    """Add two numbers on an event loop."""
    await asyncio.sleep(0)
    return {"sum": a + b}


@tool
def fail(message: str) -> str:
    """Raise."""
    raise RuntimeError(message)


@tool
def leave_by_exit() -> None:
    """Raise SystemExit."""
    sys.exit("bye")


@tool
def give_nonsense() -> object:
    """Return something that is not JSON."""
    return object()


@tool
def give_much() -> str:
    """Return 5 MB."""
    return "x" * 5_000_000


@tool(timeout_s=0.3)
def oversleep() -> None:
    """Sleep past the time limit."""
    time.sleep(60)


@tool(timeout_s=0.3, isolation="process", queue="tools")
async def oversleep_async() -> None:
    """Sleep past the time limit on an event loop."""
    await asyncio.sleep(60)


@tool(timeout_s=0.3)
def try_again_and_again() -> None:
    """Swallow every ordinary exception, for ever."""
    while True:
        try:
            time.sleep(60)
        except Exception:  # noqa: BLE001, S112
            continue


@tool(timeout_s=0.3)
def be_stubborn() -> None:
    """Swallow every exception, for ever."""
    while True:
        try:
            time.sleep(60)
        except BaseException:  # noqa: BLE001, S112
            continue


@tool(timeout_s=0.3)
def be_deaf() -> None:
    """Block every signal that can be blocked, then sleep."""
    signal.pthread_sigmask(signal.SIG_BLOCK, set(signal.Signals) - {signal.SIGKILL})
    time.sleep(60)


@tool
def vanish(code: int) -> None:
    """End the process at once, with whatever code."""
    os._exit(code)


@tool
def crash() -> None:
    """Read where there is no memory: the process ends with SIGSEGV."""
    ctypes.string_at(0)


@tool
def raise_oddly() -> None:
    """Raise what cannot be said in words, nor be made again from its arguments."""
    raise _Odd(reason="none")


@tool
def leave_a_thread(path: str) -> str:
    """Return while a thread goes on that nobody can end."""
    _note(path)
    threading.Thread(target=threading.Event().wait, daemon=False).start()
    return "left"


@tool
def count_and_wait(path: str, seconds: float = 0) -> str:
    """Write a line with this process's id to a file, then wait."""
    _note(path)
    threading.Event().wait(seconds)  # libfaketime breaks time.sleep
    return "counted"


@tool(side_effects="idempotent", max_attempts=2)
def count_and_vanish(path: str) -> None:
    """Write a line, then kill the process."""
    _note(path)
    os.kill(os.getpid(), signal.SIGKILL)


@tool(side_effects="none")
def count_harmlessly(path: str, seconds: float = 0) -> str:
    """As ``count_and_wait``, and may be repeated."""
    _note(path)
    time.sleep(seconds)
    return "counted"


@tool(approval="required", approval_timeout_s=0.1)
def count_with_approval(path: str, text: str) -> str:
    """Write a line with this process's id to a file."""
    _note(path)
    return text


@tool(approval="required")
def pay(cents: int) -> str:
    """Pay an amount, once somebody has agreed."""
    return f"{cents} paid"


@tool
def start_a_process(path: str) -> str:
    """Leave a process behind, and write its id to a file."""
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    Path(path).write_text(str(child.pid))
    return "started"


@tool
def start_a_process_and_wait(path: str) -> None:
    """The same, and be stopped while it runs."""
    start_a_process(path)
    time.sleep(60)


@tool(queue="others")
def elsewhere() -> str:
    """Is served on another queue."""
    return "elsewhere"


@tool(side_effects="idempotent", queue="gpu")
def count_on_gpu(path: str, seconds: float = 0) -> str:
    """Leave a line, on a queue of its own."""
    _note(path)
    time.sleep(seconds)
    return "counted"


@tool(side_effects="none")
async def wait(seconds: float, result: str = "waited") -> str:
    """Wait on the shared event loop."""
    await asyncio.sleep(seconds)
    return result


@tool(side_effects="none")
async def meet(guests: int) -> str:
    """Wait until so many calls are here at once."""
    await _HALLS.setdefault(guests, asyncio.Barrier(guests)).wait()
    return "met"


@tool
async def count_and_wait_inline(path: str, seconds: float = 0) -> str:
    """As ``count_and_wait``, on the shared event loop; notes when it is cancelled."""
    _note(path)
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        _note(f"{path}-cancelled")
        raise
    return "counted"


@tool(side_effects="none")
async def count_harmlessly_inline(path: str, seconds: float = 0) -> str:
    """As ``count_harmlessly``, on the shared event loop."""
    _note(path)
    await asyncio.sleep(seconds)
    return "counted"


@tool
async def raise_inline(kind: str) -> str:
    """Raise on the shared event loop."""
    kinds = {"exit": SystemExit, "cancelled": asyncio.CancelledError, "error": RuntimeError}
    raise kinds[kind]("no")


@tool
async def break_the_loop() -> str:
    """Let a task of its own raise SystemExit, which ends an event loop."""
    task = asyncio.get_running_loop().create_task(_leave())
    await asyncio.sleep(0.1)
    return "broken" if task.done() else "not broken"


@tool(timeout_s=0.3)
async def oversleep_inline() -> None:
    """Sleep past the time limit on the shared event loop."""
    await asyncio.sleep(60)


@tool(timeout_s=0.3)
async def be_stubborn_inline() -> None:
    """Swallow every cancellation, for ever."""
    while True:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            continue


@tool(timeout_s=0.3)
async def block_the_loop(seconds: float) -> str:
    """What async functions must not do."""
    time.sleep(seconds)  # noqa: ASYNC251
    return "blocked"


@tool
async def hold_the_interpreter(path: str, seconds: float) -> str:
    """What not even a thread of the worker can go on beside."""
    _note(path)
    ctypes.PyDLL(None).usleep(round(seconds * 1_000_000))
    return "counted"


@tool(max_attempts=3, retry_on=ConnectionError)
def succeed_at_last(path: str, how: str) -> str:
    """Fail twice in a way that passes."""
    _note(path)
    if current_call().attempt < 3:
        raise Retry("Not yet.", after_s=0.1) if how == "retry" else ConnectionError("Not yet.")
    return "at last"


@tool
def tell_about_the_call() -> dict[str, Any]:
    """Say what the call knows of itself, and how far it is."""
    call = current_call()
    call.progress("half way", 0.5)
    call.progress("too soon to be told")
    return {"ids": [call.thread_id, call.run_id, call.call_id], "left_s": call.left_s}


@tool
async def tell_about_the_call_inline() -> dict[str, Any]:
    """The same on the shared event loop."""
    told: dict[str, Any] = tell_about_the_call()
    await asyncio.sleep(0.1)
    return told


@tool(side_effects="none")
def give_one_of(shape: str) -> dict[str, Any]:
    """Return an object with this key."""
    return {shape: 1}


@tool(side_effects="idempotent", max_concurrency=2, max_attempts=9)
def hold_a_slot(path: str, seconds: float = 0) -> str:
    """Run beside one other execution at most; notes when each begins and ends."""
    _tell(path, f"+{os.getpid()}")
    time.sleep(seconds)
    _tell(path, f"-{os.getpid()}")
    return "held"


@tool(side_effects="idempotent", max_concurrency=2)
async def hold_a_slot_inline(path: str, seconds: float = 0) -> str:
    """The same on the shared event loop."""
    _tell(path, "+1")
    await asyncio.sleep(seconds)
    _tell(path, "-1")
    return "held"


@tool(side_effects="none")
def take_memory(megabytes: int) -> int:
    """Take so much memory."""
    return len(bytearray(megabytes * 2**20))


@tool(cleanup_s=1)
def clean_up(path: str, seconds: float = 0) -> None:
    """Wait, and clean up for some time when it is stopped."""
    _note(path)
    try:
        time.sleep(60)
    finally:
        _tell(f"{path}-cleanup", "began")
        time.sleep(seconds)
        _tell(f"{path}-cleanup", "ended")


class _Odd(Exception):
    def __init__(self, *, reason: str) -> None:
        super().__init__()
        self.reason = reason

    def __str__(self) -> str:
        raise ValueError(self.reason)


async def _leave() -> None:
    raise SystemExit


def leave_a_mark(*_: object) -> None:
    """A call-back that nobody should call."""
    Path(os.environ["LEAVE_A_MARK_AT"]).touch()


def _note(path: str) -> None:
    _tell(path, str(os.getpid()))


def _tell(path: str, line: str) -> None:
    with Path(path).open("a") as file:
        file.write(f"{line}\n")
