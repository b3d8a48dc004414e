"""One execution of one tool: whatever the tool does, there is an answer, in time.

In a process of its own, in its main thread, two alarms hold the time. The first raises
``ToolTimeout`` into the tool; should the tool go on all the same, the second one ends the process,
and its parent answers in its place. A stop (SIGTERM) raises ``ToolStopped`` in the same way, and
then there is no answer: whoever stopped the call has one. On a shared event loop the tool's task is
cancelled; one that goes on all the same is left behind, and the worker answers in its place.
"""

import asyncio
import inspect
import os
import signal
import traceback
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Final

import structlog

from orchestrator import tools
from orchestrator.commands import Outcome
from orchestrator.current import Retry
from orchestrator.llm.surrogates import whole
from orchestrator.outputs import KEPT_LIMIT_BYTES, NoJson, failure_text, output_text, within
from orchestrator.shapes import shape
from orchestrator.tools import BadArguments, Tool
from workers.memory import memory_limit

MAX_TRACEBACK: Final = 8_000
"""Characters of an exception and its traceback that are kept for operators."""

_OURS: Final = {Path(__file__), Path(tools.__file__)}

log = structlog.get_logger(__name__)


class ToolTimeout(BaseException):
    """The tool's time is over. No ``Exception``, so that ``except Exception`` lets it through."""


class ToolStopped(BaseException):
    """The call is not wanted any more: cancelled, expired, or ended by an operator."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How an execution ended, and what the model reads. ``error`` is for operators, ``full`` the
    whole output where ``text`` is a part of it, ``shape`` that of all the tool returned, however
    little is kept; ``retry``: the tool asks to be called again.
    """

    outcome: Outcome
    text: str
    error: str | None = None
    full: str | None = None
    shape: str | None = None
    retry: Retry | None = None


class TimeLimit:
    """The alarms and the stop, for the time of a ``with`` block. ``is_over``: the first alarm has
    rung; ``is_stopped``: somebody has asked the tool to end. ``cleanup_s`` later it is killed.
    """

    def __init__(self, limit_s: float, cleanup_s: float) -> None:
        self.is_over = self.is_stopped = False
        self._limit_s = max(limit_s, 0.001)
        self._cleanup_s = max(cleanup_s, 0.001)

    def __enter__(self) -> None:
        signal.signal(signal.SIGTERM, self._stop)
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s, self._cleanup_s)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def _ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_over or self.is_stopped:
            os.kill(os.getpid(), signal.SIGKILL)
        self.is_over = True
        raise ToolTimeout

    def _stop(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_over or self.is_stopped:
            return
        self.is_stopped = True
        signal.setitimer(signal.ITIMER_REAL, self._cleanup_s)
        raise ToolStopped


def attempt(
    tool: Tool[..., Any], arguments: str, limit_s: float, memory_mb: int | None = None
) -> Answer:
    """Run the tool with what the model wrote, for at most ``limit_s``. Raises nothing.

    A tool whose time ran out has timed out, whatever it returned or raised after that. After a stop
    this process ends here.
    """
    limit = TimeLimit(limit_s, tool.spec.cleanup_s)
    try:
        with limit, memory_limit(memory_mb):
            answer = succeeded(_run(tool, arguments), tool.spec.output_limit_bytes)
    except (ToolTimeout, ToolStopped):
        answer = timed_out(limit_s)
    except BaseException as error:  # noqa: BLE001 - tools may raise anything, SystemExit too
        answer = _failed(tool, error)
    if limit.is_stopped:
        os.kill(os.getpid(), signal.SIGKILL)
    return timed_out(limit_s) if limit.is_over else answer


async def attempt_inline(tool: Tool[..., Any], arguments: str, limit_s: float) -> Answer:
    """Run an async tool among others. Raises ``CancelledError`` if the call is stopped, only then.

    What becomes of a tool that the time limit has cancelled does not count.
    """
    task = asyncio.current_task()
    limit = asyncio.timeout(max(limit_s, 0))
    try:
        async with limit:
            answer = succeeded(await tool.call(arguments), tool.spec.output_limit_bytes)
    except BaseException as error:
        if task and task.cancelling():
            raise asyncio.CancelledError from error
        answer = _failed(tool, error)
    return timed_out(limit_s) if limit.expired() else answer


def succeeded(value: object, limit_bytes: int) -> Answer:
    """The answer for a tool that returned. Raises ``NoJson``."""
    text = output_text(value)
    shown = within(text, limit_bytes)
    full = within(text, KEPT_LIMIT_BYTES) if shown is not text else None
    return Answer(Outcome.SUCCEEDED, shown, full=full, shape=shape(text))


def timed_out(limit_s: float) -> Answer:
    """The answer for a tool that did not end in time."""
    message = f"The tool did not finish within {limit_s:.3g} seconds."
    return Answer(Outcome.TIMED_OUT, failure_text("timeout", message), message)


def failed(kind: str, message: str) -> Answer:
    """The answer for a tool that has no output."""
    return Answer(Outcome.FAILED, failure_text(kind, message), message)


def _run(tool: Tool[..., Any], arguments: str) -> object:
    value = tool.call(arguments)
    return asyncio.run(_awaited(value)) if inspect.isawaitable(value) else value


async def _awaited(value: Awaitable[object]) -> object:
    return await value


def _failed(tool: Tool[..., Any], error: BaseException) -> Answer:
    match error:
        case BadArguments():
            return failed("invalid_arguments", str(error))
        case NoJson():
            return failed("not_json", str(error))
        case MemoryError():
            return failed("out_of_memory", "The tool ran out of memory.")
        case _:
            return _raised(tool, error)


def _raised(tool: Tool[..., Any], error: BaseException) -> Answer:
    """The model reads the words of the exception, operators its traceback as well. The log has the
    traceback without the words, which may tell what is nobody's business there.
    """
    words, frames = _words(error), _frames(error)
    log.warning("tool.raised", tool=tool.spec.name, error=type(error).__name__, frames=frames)
    retry = error if isinstance(error, Retry) else None
    if retry is None and isinstance(error, tool.retry_on):
        retry = Retry()
    text = failure_text("exception", words, is_retryable=retry is not None)
    told = whole(f"{words}\n{frames}")[-MAX_TRACEBACK:]
    return Answer(Outcome.FAILED, text, told, retry=retry)


def _frames(error: BaseException) -> str:
    """Where in the user's code it was raised, outermost first."""
    frames = traceback.extract_tb(error.__traceback__)
    theirs = [frame for frame in frames if Path(frame.filename) not in _OURS]
    return "".join(traceback.format_list(theirs))


def _words(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return str(error) if isinstance(error, Retry) else f"{name}: {error}"
    except Exception:  # noqa: BLE001 - its __str__ may raise as well
        return name
