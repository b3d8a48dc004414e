"""The HTTP side of the command: JSON in and out, and a sentence when it does not work."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from cli.failure import Failure, Refusal

TIMEOUT_S: Final = 30.0
HOLD_S: Final = 20
"""So long a read may be held; less than the time-out."""

PAGE: Final = 100
"""Objects asked for at once: as many as a list gives."""

RECONNECT_AFTER_S: Final = 1.0
RECONNECTS: Final = 30
"""So often in a row a stream is taken up again before the server is given up."""


def key_from_environment() -> str | None:
    """The key that clients use here: ours, or the one that the OpenAI SDK reads."""
    return os.environ.get("RUNSTATE_API_KEY") or os.environ.get("OPENAI_API_KEY")


class Client:
    """A server by its address, with or without ``/v1`` at the end. Use it in ``async with``. Of
    certificates, those are trusted that the system trusts (``SSL_CERT_FILE``), and ``certificate``.
    """

    def __init__(self, base_url: str, key: str | None, certificate: Path | None = None) -> None:
        self.root_url = base_url.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        trusted = ssl.create_default_context()
        if certificate:
            trusted.load_verify_locations(certificate)
        self._http = httpx2.AsyncClient(
            headers=headers, timeout=TIMEOUT_S, trust_env=False, verify=trusted
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._http.aclose()

    async def get(self, path: str, **query: str | int) -> Any:
        """What the server answers to GET."""
        return await self._exchange("GET", path, params=query)

    async def post(self, path: str, body: dict[str, Any]) -> Any:
        """What the server answers to POST."""
        return await self._exchange("POST", path, json=body)

    async def delete(self, path: str) -> Any:
        """What the server answers to DELETE."""
        return await self._exchange("DELETE", path)

    async def when_changed(self, path: str) -> Any:
        """What the server answers to GET of a run once its status changes, or after a while."""
        return await self._exchange("GET", path, headers={"Prefer": f"wait={HOLD_S}"})

    async def pages(self, path: str, **query: str) -> AsyncIterator[dict[str, Any]]:
        """The objects of a list, oldest first."""
        after: dict[str, str] = {}
        while True:
            page = await self.get(path, order="asc", limit=PAGE, **query, **after)
            for item in page["data"]:
                yield item
            if not page["has_more"]:
                return
            after = {"after": page["last_id"]}

    async def lines(self, path: str) -> AsyncIterator[str]:
        """A long answer to GET, line by line."""
        try:
            async with self._http.stream("GET", f"{self.root_url}{path}") as answer:
                if not answer.is_success:
                    await answer.aread()
                    raise Failure(_reason(answer))
                async for line in answer.aiter_lines():
                    yield line
        except (httpx2.TransportError, httpx2.InvalidURL) as problem:
            text = f"{self.root_url} does not answer, or broke off ({problem})."
            raise Failure(text) from problem

    async def events(self, path: str) -> AsyncIterator[httpx2.ServerSentEvent]:
        """What a run tells to its end. A stream that breaks off is gone on with where it was."""
        last_id, failures = "0", 0
        while failures < RECONNECTS:
            try:
                async for event in self._stream(path, last_id):
                    if event.event == "done":
                        return
                    last_id, failures = event.id, 0
                    yield event
            except httpx2.TransportError:
                pass
            failures += 1
            await asyncio.sleep(RECONNECT_AFTER_S)
        raise Failure(f"{self.root_url} does not answer any more.")

    async def _stream(self, path: str, last_id: str) -> AsyncIterator[httpx2.ServerSentEvent]:
        """One connection, up to its end or the server's word that it cannot go on."""
        headers = {"Last-Event-ID": last_id}
        url = f"{self.root_url}{path}"
        async with self._http.sse(url, headers=headers, max_event_size=None) as source:
            if not source.response.is_success:
                await source.response.aread()
                raise Failure(_reason(source.response))
            async for event in source:
                if event.event == "error":
                    return
                yield event

    async def what_is_missing(self) -> str | None:
        """Why the server cannot take runs yet, in its own words; nothing if it can."""
        try:
            answer = await self._http.get(f"{self.root_url}/readyz")
        except httpx2.TransportError:
            return "the API does not answer"
        return None if answer.status_code == 200 else answer.text

    async def _exchange(self, method: str, path: str, **content: Any) -> Any:
        try:
            answer = await self._http.request(method, f"{self.root_url}{path}", **content)
        except (httpx2.TransportError, httpx2.InvalidURL) as problem:
            raise Failure(
                f"{self.root_url} does not answer ({problem}): start `runstate dev`, "
                "or name the server with --url or RUNSTATE_BASE_URL."
            ) from problem
        if answer.is_success:
            return _json(answer, self.root_url)
        if answer.status_code == 401:
            raise Failure(f"{self.root_url} wants a key that it knows: set RUNSTATE_API_KEY.")
        raise (Refusal if answer.is_client_error else Failure)(_reason(answer))


def _json(answer: httpx2.Response, url: str) -> Any:
    try:
        return answer.json()
    except ValueError:
        raise Failure(f"{url} is not a Runstate server: its answer is not JSON.") from None


def _reason(answer: httpx2.Response) -> str:
    """The sentence of an error answer, or its status where it has none."""
    try:
        return str(answer.json()["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return (
            f"{answer.request.method} {answer.request.url} was answered with {answer.status_code}."
        )
