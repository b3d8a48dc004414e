"""Models behind an OpenAI-compatible endpoint, by streamed chat completions.

The official client makes the request and names the errors, httpx2 reads events; ``chat_request``
and ``chat_reply`` say what is sent and what is made of the answer. Nothing is repeated here: the
engine does that, and counts.
"""

from collections.abc import AsyncGenerator
from typing import Final

import httpx2
import openai

from orchestrator.errors import ModelError
from orchestrator.llm.chat_reply import ChatReply
from orchestrator.llm.chat_request import chat_request
from orchestrator.llm.endpoint import Endpoint
from orchestrator.llm.event_stream import broken_off, drain, parsed
from orchestrator.llm.failures import errors_named
from orchestrator.llm.protocol import Delta, Reply, TurnRequest
from orchestrator.llm.routes import unknown_here
from orchestrator.server_tools import server_tools
from orchestrator.settings import Settings

LAST_EVENT: Final = "[DONE]"


class OpenAIChat:
    """All models of one endpoint. Makes its client when it is loaded, or at the first turn."""

    def __init__(self, endpoint: Endpoint, settings: Settings) -> None:
        self._endpoint = endpoint
        self._settings = settings
        self._made: openai.AsyncOpenAI | None = None

    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Reply]:
        """One request. Closing the iteration closes the connection."""
        if server_tools(request.spec.tools):
            raise ModelError(unknown_here(request.spec))
        reply = ChatReply()
        with errors_named(openai, openai.OpenAIError, self._endpoint):
            create = self._client().chat.completions.with_streaming_response.create
            async with create(**chat_request(request)) as response:
                events = aiter(httpx2.EventSource(response.http_response))
                is_done = False
                async for event in events:
                    if is_done := event.data.startswith(LAST_EVENT):
                        break
                    if event.data:
                        for delta in reply.feed(parsed(event.data)):
                            yield delta
                if not is_done and reply.finish_reason is None:
                    raise broken_off()
                await drain(events)
            for item in reply.end():
                yield item

    def load(self) -> None:
        """Make the client, with all that it imports late. Raises ``ModelError``."""
        with errors_named(openai, openai.OpenAIError, self._endpoint):
            _ = self._client().chat.completions

    async def aclose(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.close()
            self._made = None

    def _client(self) -> openai.AsyncOpenAI:
        if self._made is None:
            self._made = openai.AsyncOpenAI(**self._endpoint.client_options(openai, self._settings))
        return self._made
