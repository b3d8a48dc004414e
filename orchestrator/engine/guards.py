"""Runs guardrails: in order, each within its time, and whatever they do, never past a failure.

A rule that fails or is too slow stops what it was to look at. Its text names the rule; why it
failed is in the log alone.
"""

import asyncio
import inspect
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import structlog

from orchestrator.fields import MAX_TEXT_CHARS
from orchestrator.guardrails import AT_TOOLS, Guardrail, Rewrite, Stop, Verdict
from orchestrator.llm.protocol import Delta, TextDelta
from orchestrator.records import Firing, GuardPoint

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Look:
    """What became of a text. ``stop`` is what is said instead of it, if it may not pass."""

    text: str
    firings: tuple[Firing, ...] = ()
    stop: str | None = None


class _TooSlow(Exception):
    pass


class Guards:
    """The rules of one process."""

    def __init__(self, rails: Sequence[Guardrail] = ()) -> None:
        self._rails = rails
        self._at = {point: [rail for rail in rails if rail.on is point] for point in GuardPoint}

    def of(self, model: str) -> "Guards":
        """Those that look at runs of this model."""
        return Guards([rail for rail in self._rails if rail.is_for(model)])

    def are_at(self, *points: GuardPoint) -> bool:
        """Whether any rule looks there."""
        return any(self._at[point] for point in points)

    def holds(self, delta: Delta) -> bool:
        """Whether a piece of the reply may not be shown before the whole was looked at. A reply
        that is stopped takes its calls along.
        """
        if isinstance(delta, TextDelta):
            return self.are_at(GuardPoint.OUTPUT)
        return self.are_at(GuardPoint.OUTPUT, GuardPoint.TOOL_INPUT)

    async def look(self, on: GuardPoint, text: str, subject: str, tool: str | None = None) -> Look:
        """Show the text to the rules; the first one that stops it has the last word. ``subject`` is
        the id of its message or call.
        """
        firings: list[Firing] = []
        for rail in self._at[on]:
            if not rail.is_about(tool):
                continue
            verdict, reason = await _judge(rail, text, tool)
            if verdict is None or verdict == Rewrite(text):
                continue
            stop = verdict.text if isinstance(verdict, Stop) else None
            did = "rewrite" if stop is None else "stop"
            firing = Firing(rule=rail.name, on=on, verdict=did, subject=subject, reason=reason)
            log.info("guard.fired", **firing.model_dump(mode="json"))
            firings.append(firing)
            if stop is not None:
                return Look(text, tuple(firings), stop)
            text = verdict.text
        return Look(text, tuple(firings))


async def _judge(rail: Guardrail, text: str, tool: str | None) -> tuple[Verdict, str | None]:
    """The verdict, and what is told of a stop."""
    given = (text, tool) if rail.on in AT_TOOLS else (text,)
    most = max(MAX_TEXT_CHARS, len(text))
    try:
        verdict = await _answer(rail, given)
        if verdict is not None:
            verdict.text.encode()  # what cannot be stored is no verdict
            if (length := len(verdict.text)) > most:
                return _failed(rail), f"it wrote {length} characters, at most {most} are taken"
    except _TooSlow:
        return _failed(rail), f"it did not answer within {rail.timeout_s:g} s"
    except Exception as error:
        log.exception("guard.failed", rule=rail.name)
        return _failed(rail), f"it failed with {type(error).__name__}"
    return verdict, verdict.text if isinstance(verdict, Stop) else None


def _failed(rail: Guardrail) -> Stop:
    return Stop(f"The guardrail {rail.name} could not be applied, so this was stopped.")


async def _answer(rail: Guardrail, given: tuple[Any, ...]) -> Verdict:
    """Not waited for longer than it may take: what it says later counts for nothing."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + rail.timeout_s
    task = asyncio.create_task(_call(rail, given))
    task.add_done_callback(lambda done: done.cancelled() or done.exception())
    try:
        await asyncio.wait({task}, timeout=rail.timeout_s)
        if not task.done() or loop.time() > until_s:  # one that blocks the loop is done by now
            raise _TooSlow
        if task.cancelled():
            raise RuntimeError("It cancelled itself.")
        verdict = task.result()
    finally:
        task.cancel()
    if isinstance(verdict, Rewrite | Stop | None):
        return verdict
    raise TypeError(f"It returned {type(verdict).__name__}, not Rewrite, Stop or None.")


async def _call(rail: Guardrail, given: tuple[Any, ...]) -> Any:
    try:
        if inspect.iscoroutinefunction(rail.function):
            return await rail.function(*given)
        return await _on_thread(rail, given)
    except (asyncio.CancelledError, Exception):
        raise
    except BaseException as error:  # such as SystemExit, and what Rust raises when it panics
        raise RuntimeError(f"It raised {type(error).__name__}.") from error


async def _on_thread(rail: Guardrail, given: tuple[Any, ...]) -> Any:
    """A thread of its own: if it hangs, no other rule waits for it, and the process can end."""
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[tuple[Any, BaseException | None]] = loop.create_future()

    def settle(answer: Any, error: BaseException | None) -> None:
        if not answered.done():
            answered.set_result((answer, error))

    def work() -> None:
        answer, failure = None, None
        try:
            answer = rail.function(*given)
        except BaseException as error:  # noqa: BLE001 - it is raised where it is waited for
            failure = error
        with suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, answer, failure)

    threading.Thread(target=work, name=f"guardrail {rail.name}", daemon=True).start()
    answer, failure = await answered
    if failure is not None:
        raise failure
    return answer
