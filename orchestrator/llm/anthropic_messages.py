"""Models behind Anthropic's Messages API, streamed.

The official client makes the request and names the errors, httpx2 reads events;
``messages_request`` and ``messages_reply`` say what is sent and what is made of the answer. An
answer that pauses is asked to go on, with what it has said so far: to the engine it is one turn.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Final

import anthropic
import httpx2

from orchestrator.errors import ModelError
from orchestrator.llm.endpoint import Endpoint
from orchestrator.llm.event_stream import broken_off, drain, parsed
from orchestrator.llm.failures import errors_named
from orchestrator.llm.messages_reply import MessagesReply, uses_in
from orchestrator.llm.messages_request import going_on, messages_request
from orchestrator.llm.protocol import Delta, Pause, Reply, TurnRequest
from orchestrator.records import Json
from orchestrator.settings import Settings

MAX_PAUSES: Final = 20
"""How often one turn may pause. Each pause is ten uses of a tool that runs at the provider."""


class AnthropicMessages:
    """All models of one endpoint. Makes its client when it is loaded, or at the first turn."""

    def __init__(self, endpoint: Endpoint, max_output_tokens: int, settings: Settings) -> None:
        self._endpoint = endpoint
        self._max_output_tokens = max_output_tokens
        self._settings = settings
        self._made: anthropic.AsyncAnthropic | None = None

    async def stream(self, request: TurnRequest) -> AsyncGenerator[Delta | Pause | Reply]:
        """One request, or several where the answer pauses. Closing it closes the connection."""
        reply = MessagesReply()
        body = messages_request(request, self._max_output_tokens)
        with errors_named(anthropic, anthropic.AnthropicError, self._endpoint):
            while True:
                async with aclosing(self._answer(body, reply)) as deltas:
                    async for delta in deltas:
                        yield delta
                if reply.is_whole:
                    break
                if reply.pauses > MAX_PAUSES:
                    raise ModelError(f"The model's answer paused more than {MAX_PAUSES} times.")
                yield Pause()
                blocks = reply.take_blocks()
                body = going_on(body, blocks, uses_in(blocks), reply.container)
        for item in reply.end():
            yield item

    def load(self) -> None:
        """Make the client, with all that it imports late. Raises ``ModelError``."""
        with errors_named(anthropic, anthropic.AnthropicError, self._endpoint):
            _ = self._client().messages

    async def aclose(self) -> None:
        """Close the connections."""
        if self._made is not None:
            await self._made.close()
            self._made = None

    async def _answer(self, body: Json, reply: MessagesReply) -> AsyncGenerator[Delta]:
        create = self._client().messages.with_streaming_response.create
        # The client has no words for what older models take (2.14 has none for a temperature).
        required = {name: body[name] for name in ("model", "max_tokens", "messages", "stream")}
        async with create(**required, extra_body=body) as response:
            events = aiter(httpx2.EventSource(response.http_response))
            async for event in events:
                if event.data:
                    for delta in reply.feed(parsed(event.data)):
                        yield delta
                if reply.has_stopped:
                    break
            if not reply.has_stopped:
                raise broken_off()
            await drain(events)

    def _client(self) -> anthropic.AsyncAnthropic:
        if self._made is None:
            self._made = anthropic.AsyncAnthropic(
                **self._endpoint.client_options(anthropic, self._settings), open_telemetry=False
            )
        return self._made
