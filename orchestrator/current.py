"""What a tool may know of the call that it is answering, and say while it does.

from orchestrator import Retry, current_call, tool

@tool(side_effects="idempotent")
def send_parcel(address: str) -> str:
    call = current_call()
    call.progress("asking the carrier", 0.2)
    answer = ask(address, key=call.call_id, timeout_s=call.left_s)
    if answer is None:
        raise Retry("The carrier is busy.", after_s=5)
    return answer
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

PROGRESS_EVERY_S: Final = 0.5
"""What is said sooner after the last word than this is dropped."""

PROGRESS_LIMIT: Final = 500
"""Characters of a word about the progress."""


class Retry(Exception):
    """Raised by a tool: it did not work, and may if it is called again, after ``after_s`` seconds
    (else after a pause that doubles). At most ``max_attempts`` in all, whatever the side effects.
    """

    def __init__(
        self, message: str = "The tool asks to be tried again.", after_s: float = 0
    ) -> None:
        super().__init__(message)
        self.after_s = after_s


@dataclass(slots=True)
class CurrentCall:
    """The call that is being answered. ``call_id`` is the same in all attempts: pass it on as an
    idempotency key. ``attempt`` counts from 1.
    """

    thread_id: str
    run_id: str
    call_id: str
    tool: str
    attempt: int
    max_attempts: int
    ends_at: float
    tell: Callable[[str], None] = field(repr=False)
    _told_at: float = field(default=float("-inf"), repr=False)

    @property
    def left_s(self) -> float:
        """Seconds until the call's time limit: the tool's, or what the run has left."""
        return max(0.0, self.ends_at - time.monotonic())

    def progress(self, text: str, fraction: float | None = None) -> None:
        """Say how far the call is, for people: it lands in the run's log. Two a second are kept."""
        if time.monotonic() < self._told_at + PROGRESS_EVERY_S:
            return
        self._told_at = time.monotonic()
        share = "" if fraction is None else f"{min(max(fraction, 0), 1):.0%} "
        self.tell(f"{share}{text}"[:PROGRESS_LIMIT])


CURRENT: Final = ContextVar[CurrentCall]("current_call")
"""Set by the worker around a tool."""


def current_call() -> CurrentCall:
    """The call that this code answers. Raises ``RuntimeError`` where there is none."""
    try:
        return CURRENT.get()
    except LookupError:
        raise RuntimeError("current_call() works inside a tool that a worker runs.") from None
