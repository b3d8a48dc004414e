"""Models behind an OpenAI-compatible endpoint, by streamed chat completions.

The official client makes the request and names the errors, httpx2 reads events; ``chat_request``
and ``chat_reply`` say what is sent and what is made of the answer. Nothing is repeated here: the
engine does that, and counts.
"""

import asyncio
import contextlib
import json
import math
from collections.abc import AsyncGenerator, AsyncIterator, Iterator
from email.utils import parsedate_to_datetime
from typing import Final

import httpx2
import openai

from orchestrator.errors import ModelError
from orchestrator.llm.chat_reply import ChatReply
from orchestrator.llm.chat_request import chat_request
from orchestrator.llm.endings import failure_for
from orchestrator.llm.protocol import Delta, Reply, TurnRequest
from orchestrator.settings import Settings

OFFICIAL_BASE_URL: Final = "https://api.openai.com/v1"
"""Given always: without it the client would follow OPENAI_BASE_URL, which users of a Runstate
server set to that very server."""

NO_KEY: Final = "none"
"""For local servers that ask for no key; the client insists on one."""

CONNECT_TIMEOUT_S: Final = 10.0

DRAIN_S: Final = 0.1
"""How long to wait for the end of a finished answer, so that the connection can be used again."""

LAST_EVENT: Final = "[DONE]"

SENTENCE_LIMIT_CHARS: Final = 500


class OpenAIChat:
    """All models of the one endpoint that the settings name. Makes its client at the first turn."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._made: openai.AsyncOpenAI | None = None

    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """One request. Closing the iteration closes the connection."""
        reply = ChatReply()
        with self._errors_named():
            create = self._client().chat.completions.with_streaming_response.create
            async with create(**chat_request(request)) as response:
                events = aiter(httpx2.EventSource(response.http_response))
                is_done = False
                async for event in events:
                    if is_done := event.data.startswith(LAST_EVENT):
                        break
                    if event.data:
                        for delta in reply.feed(_chunk(event.data)):
                            yield delta
                if not is_done and reply.finish_reason is None:
                    raise ModelError("The model's answer broke off.", is_retryable=True)
                await _drain(events)
            for item in reply.end():
                yield item

    async def aclose(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.close()
            self._made = None

    def _client(self) -> openai.AsyncOpenAI:
        if self._made is None:
            settings = self._settings
            silence_s = settings.model_timeout_s
            connections = settings.engine_concurrency
            key = settings.openai_api_key
            self._made = openai.AsyncOpenAI(
                base_url=settings.openai_base_url or OFFICIAL_BASE_URL,
                api_key=key.get_secret_value() if key else NO_KEY,
                max_retries=0,
                timeout=httpx2.Timeout(silence_s, connect=min(silence_s, CONNECT_TIMEOUT_S)),
                http_client=openai.DefaultAsyncHttpxClient(
                    limits=httpx2.Limits(
                        max_connections=connections, max_keepalive_connections=connections
                    )
                ),
            )
        return self._made

    @contextlib.contextmanager
    def _errors_named(self) -> Iterator[None]:
        """Every error of the client as a ``ModelError``, in a sentence without the key."""
        try:
            yield
        except openai.APIStatusError as error:
            raise self._refused(error) from error
        except (openai.APITimeoutError, httpx2.TimeoutException) as error:
            kind = type(error.__cause__ or error).__name__
            sentence = f"The model's endpoint did not answer in time ({kind})."
            raise ModelError(sentence, is_retryable=True) from error
        except (openai.APIConnectionError, httpx2.RequestError) as error:
            cause = error.__cause__ or error
            reason = self._shown(str(cause) or type(cause).__name__)
            raise ModelError(f"The model's endpoint failed: {reason}", is_retryable=True) from error
        except (openai.OpenAIError, httpx2.InvalidURL) as error:
            raise ModelError(f"The model call failed: {self._shown(str(error))}") from error

    def _refused(self, error: openai.APIStatusError) -> ModelError:
        status = error.status_code
        if status in {401, 403}:
            # The provider's own sentence would show a part of the key.
            return ModelError(
                f"The model's endpoint refused the key ({status}): check RUNSTATE_OPENAI_API_KEY."
            )
        if error.code == "insufficient_quota":
            return ModelError(
                f"The model's endpoint says: {self._shown(error.message)}",
                last_error_code="rate_limit_exceeded",
            )
        sentence = f"The model's endpoint says ({status}): {self._shown(error.message)}"
        return failure_for(status, sentence, _retry_after_s(error.response.headers))

    def _shown(self, text: str) -> str:
        key = self._settings.openai_api_key
        if key and key.get_secret_value():
            text = text.replace(key.get_secret_value(), "…")
        return text if len(text) <= SENTENCE_LIMIT_CHARS else f"{text[:SENTENCE_LIMIT_CHARS]}…"


def _chunk(data: str) -> dict[str, object]:
    try:
        chunk = json.loads(data)  # not pydantic's: half surrogates are joined later
    except ValueError as error:
        raise ModelError("The model's stream is not JSON.", is_retryable=True) from error
    return chunk if isinstance(chunk, dict) else {}


async def _drain(events: AsyncIterator[object]) -> None:
    with contextlib.suppress(TimeoutError, httpx2.RequestError):
        async with asyncio.timeout(DRAIN_S):
            async for _ in events:
                pass


def _retry_after_s(headers: httpx2.Headers) -> float | None:
    """Seconds, from the header's number or its date (against the server's own clock)."""
    asked = headers.get("retry-after", "")
    try:
        seconds = float(asked)
    except ValueError:
        try:
            until = parsedate_to_datetime(asked) - parsedate_to_datetime(headers.get("date", ""))
        except (TypeError, ValueError):
            return None
        seconds = until.total_seconds()
    return max(seconds, 0.0) if math.isfinite(seconds) else None
