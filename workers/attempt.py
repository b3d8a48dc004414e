"""One execution of one tool: whatever the tool does, there is an answer, in time.

Two alarms hold the time. The first raises ``ToolTimeout`` into the tool; should the tool go on all
the same, the second one ends the process, and its parent answers in its place. So this belongs into
a process of its own, into its main thread.
"""

import asyncio
import inspect
import os
import signal
from collections.abc import Awaitable
from dataclasses import dataclass
from types import FrameType
from typing import Any, Final

from orchestrator.commands import Outcome
from orchestrator.outputs import NoJson, failure_text, output_text
from orchestrator.tools import BadArguments, Tool

KILL_AFTER_S: Final = 2.0
"""The second alarm comes so long after the first: time for ``finally`` blocks, no more."""


class ToolTimeout(BaseException):
    """The tool's time is over. No ``Exception``, so that ``except Exception`` lets it through."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How an execution ended, and what the model reads. ``error`` is for operators."""

    outcome: Outcome
    text: str
    error: str | None = None


class TimeLimit:
    """The two alarms, for the time of a ``with`` block. ``is_over``: the first one has rung."""

    def __init__(self, limit_s: float) -> None:
        self.is_over = False
        self._limit_s = max(limit_s, 0.001)

    def __enter__(self) -> None:
        signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._limit_s, KILL_AFTER_S)

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)

    def _ring(self, _signal: int, _frame: FrameType | None) -> None:
        if self.is_over:
            os.kill(os.getpid(), signal.SIGKILL)
        self.is_over = True
        raise ToolTimeout


def attempt(tool: Tool[..., Any], arguments: str, limit_s: float) -> Answer:
    """Run the tool with what the model wrote, for at most ``limit_s``. Raises nothing.

    A tool whose time ran out has timed out, whatever it returned or raised after that.
    """
    limit = TimeLimit(limit_s)
    try:
        with limit:
            text = _run(tool, arguments)
    except BaseException as error:  # noqa: BLE001 - tools may raise anything, SystemExit too
        return timed_out(limit_s) if limit.is_over else _failed(error)
    return timed_out(limit_s) if limit.is_over else Answer(Outcome.SUCCEEDED, text)


def timed_out(limit_s: float) -> Answer:
    """The answer for a tool that did not end in time."""
    message = f"The tool did not finish within {limit_s:.3g} seconds."
    return Answer(Outcome.TIMED_OUT, failure_text("timeout", message), message)


def failed(kind: str, message: str) -> Answer:
    """The answer for a tool that has no output."""
    return Answer(Outcome.FAILED, failure_text(kind, message), message)


def _run(tool: Tool[..., Any], arguments: str) -> str:
    value = tool.call(arguments)
    if inspect.isawaitable(value):
        value = asyncio.run(_awaited(value))
    return output_text(value, tool.spec.output_limit_bytes)


async def _awaited(value: Awaitable[object]) -> object:
    return await value


def _failed(error: BaseException) -> Answer:
    match error:
        case BadArguments():
            return failed("invalid_arguments", str(error))
        case NoJson():
            return failed("not_json", str(error))
        case _:
            return failed("exception", _words(error))


def _words(error: BaseException) -> str:
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:  # noqa: BLE001 - its __str__ may raise as well
        return name
