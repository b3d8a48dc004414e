"""The answer that is a stream of events."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.errors import error_detail
from api.streaming.frames import DONE, KEEP_ALIVE, Rendered, frame
from api.streaming.places import Place, just_before
from api.streaming.readers import Readers
from orchestrator.store import RunView, Store

HEADERS: Final = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
"""So that no proxy keeps the events to itself."""


class EventStream(Response):
    """What a run tells from behind ``place`` on, until it ends.

    With ``ends_at_question`` the stream also ends where the client must answer calls. ``has_ids``
    adds the ids to go on from; some clients stumble over them, so only who asks for a part of a log
    gets them. A reader that goes away changes nothing about the run.
    """

    media_type = "text/event-stream"

    def __init__(  # noqa: PLR0913
        self,
        readers: Readers,
        store: Store,
        view: RunView,
        place: Place = Place(),  # noqa: B008 - it is immutable
        *,
        head: bytes = b"",
        has_ids: bool = False,
        ends_at_question: bool = True,
    ) -> None:
        super().__init__(headers=HEADERS)
        del self.headers["content-length"]
        self._readers = readers
        self._store = store
        self._view = view
        self._place = place
        self._head = head
        self._has_ids = has_ids
        self._ends_at_question = ends_at_question
        self._has_ended = False

    async def __call__(self, _: Scope, receive: Receive, send: Send) -> None:
        """Send until the end, or until the client has gone."""
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        parts = asyncio.create_task(self._send_all(send)), asyncio.create_task(_gone(receive))
        try:
            await asyncio.wait(parts, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for part in parts:
                part.cancel()
            results = await asyncio.gather(*parts, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result

    async def _send_all(self, send: Send) -> None:
        async def write(body: bytes, *, more_body: bool = True) -> None:
            await send({"type": "http.response.body", "body": body, "more_body": more_body})

        last = DONE
        if self._head:
            await write(self._head)
        try:
            async for chunk in self._chunks():
                await write(chunk)
        except Exception as error:  # noqa: BLE001 - the status has been sent, so it is told here
            last = failure(error) + DONE
        await write(last, more_body=False)

    async def _chunks(self) -> AsyncIterator[bytes]:
        cursor = just_before(self._place.key)
        async with self._readers.reading(self._store, self._view, cursor) as log:
            while not self._has_ended:
                pages, cursor = await log.after(cursor)
                chunk = b"".join(self._frames(pages))
                if chunk:
                    yield chunk
                elif log.is_complete and not pages:
                    return
                elif not pages:
                    yield KEEP_ALIVE

    def _frames(self, pages: Sequence[Rendered]) -> list[bytes]:
        """The frames up to the one with which the stream ends."""
        frames: list[bytes] = []
        for page in pages:
            for at, body in page.after(self._place):
                frames.append(b"id: %b\n%b" % (str(at).encode(), body) if self._has_ids else body)
            if page.is_final or (page.waits_for and self._ends_at_question):
                self._has_ended = True
                break
        return frames


def failure(error: Exception) -> bytes:
    """The frame that tells why a stream ends before its run does.

    Clients look for the reason in two places, so it is in both.
    """
    detail = error_detail(error)
    return frame("error", {**detail, "error": detail})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
