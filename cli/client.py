"""The HTTP side of the command: JSON in and out, and a sentence when it does not work."""

import os
from types import TracebackType
from typing import Any, Final, Self

import httpx2

from cli.failure import Failure

TIMEOUT_S: Final = 30.0


def key_from_environment() -> str | None:
    """The key that clients use here: ours, or the one that the OpenAI SDK reads."""
    return os.environ.get("RUNSTATE_API_KEY") or os.environ.get("OPENAI_API_KEY")


class Client:
    """A server by its address, with or without ``/v1`` at the end. Use it in ``async with``."""

    def __init__(self, base_url: str, key: str | None) -> None:
        self.root_url = base_url.rstrip("/").removesuffix("/v1")
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        self._http = httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S, trust_env=False)

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
        raise Failure(_reason(answer))


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
