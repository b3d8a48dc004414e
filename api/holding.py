"""Reads that wait: answered when the run's public status changes, not when the client asks again.

Asked for by ``Prefer: wait=N`` (RFC 7240), and by the poll helpers of SDKs without their knowing:
to them it is a slow answer.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from fastapi import Request
from starlette.datastructures import Headers

from api.doorbell import Doorbell
from orchestrator.projection import public_status
from orchestrator.shell import view_run
from orchestrator.states import RunStatus
from orchestrator.store import RunRef, RunView, Store

MAX_HOLD_S: Final = 25
"""Proxies and load balancers give up after 30 s or more."""

HELPER_HOLD_S: Final = 20

POLL_AFTER_MS: Final = 1
"""What a client is told to wait before it reads again: the holding itself is the waiting."""

DEADLINE_SLACK_S: Final = 0.002
"""So much past its deadline a run is read again: the clock of the store counts milliseconds."""

_WAIT: Final = re.compile(r'wait\s*=\s*"?(\d{1,9})"?', re.IGNORECASE | re.ASCII)


@dataclass(frozen=True, slots=True)
class Hold:
    """How long a read may be held, and the headers that say so."""

    timeout_s: float
    headers: dict[str, str]


def hold_of(headers: Headers) -> Hold | None:
    """What these headers ask for; nothing for a plain read."""
    poll = {"openai-poll-after-ms": str(POLL_AFTER_MS)}
    for preference in re.split(r"[,;]", ",".join(headers.getlist("prefer"))):
        if match := _WAIT.fullmatch(preference.strip()):
            timeout_s = min(int(match[1]), MAX_HOLD_S)
            return Hold(timeout_s, poll | {"Preference-Applied": f"wait={timeout_s}"})
    if headers.get("x-stainless-poll-helper", "").lower() != "true":
        return None
    return Hold(min(HELPER_HOLD_S, _client_timeout_s(headers) / 2), poll)


async def held_view(
    store: Store, ref: RunRef, doorbell: Doorbell, request: Request, timeout_s: float
) -> RunView:
    """The run when its public status has changed, the time is over, its client has gone, or it is
    the client's turn already. One round trip for each commit of the run.
    """
    clock = asyncio.get_running_loop().time
    give_up_at = clock() + timeout_s
    with doorbell.listening(ref.run_id) as strokes:
        view = await view_run(store, ref)
        if _is_clients_turn(view):
            return view
        began_as = _status(view)
        async with _watched(request, strokes.ring) as gone:
            while _status(view) == began_as and not (gone.done() or doorbell.is_closing):
                left_s = give_up_at - clock()
                if left_s <= 0:
                    break
                until_deadline_s = (view.run.deadline_ms - view.now_ms) / 1000 + DEADLINE_SLACK_S
                strokes.ignored = _unchanging(view)
                await strokes.wait(min(left_s, until_deadline_s))
                if not gone.done():
                    view = await view_run(store, ref)
    return view


def _status(view: RunView) -> RunStatus:
    return public_status(view.run, view.calls)


def _unchanging(view: RunView) -> str | None:
    """The status of the run in which clients are shown the same, whatever else is committed."""
    status = view.run.status
    return None if status is RunStatus.REQUIRES_ACTION else status


def _is_clients_turn(view: RunView) -> bool:
    return view.run.is_final or _status(view) is RunStatus.REQUIRES_ACTION


def _client_timeout_s(headers: Headers) -> float:
    """How long the SDK waits for an answer, as it says itself."""
    text = headers.get("x-stainless-read-timeout") or headers.get("x-stainless-timeout") or ""
    try:
        return max(float(text), 0.0)
    except ValueError:
        return float("inf")


@asynccontextmanager
async def _watched(
    request: Request, wake: Callable[[], None]
) -> AsyncIterator["asyncio.Task[None]"]:
    """A task that is done when the client has gone; then it wakes the waiter."""

    async def leave() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            continue
        wake()

    leaving = asyncio.create_task(leave())
    try:
        yield leaving
    finally:
        leaving.cancel()
