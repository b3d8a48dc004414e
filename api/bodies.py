"""JSON bodies, read strictly.

The standard parser lets through what cannot be stored or sent again: halves of surrogate pairs,
``NaN``, nesting without end. This one refuses them with the place of the fault.
"""

from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, Final

from fastapi import Request, Response
from fastapi.routing import APIRoute
from pydantic_core import from_json
from starlette.exceptions import HTTPException

MAX_BODY_BYTES: Final = 16 * 1024 * 1024
"""Room for thirty tool outputs of the largest size; what comes after it is not read."""


class StrictRequest(Request):
    """A request whose body is JSON as the standard has it and of limited size, or refused.

    Starlette's own limit answers in plain text, before any handler of ours.
    """

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """The body in pieces."""
        size_bytes = 0
        async for piece in super().stream():
            size_bytes += len(piece)
            if size_bytes > MAX_BODY_BYTES:
                raise HTTPException(413, f"A body may have at most {MAX_BODY_BYTES} bytes.")
            yield piece

    async def json(self) -> Any:
        """The parsed body."""
        try:
            return from_json(await self.body(), allow_inf_nan=False)
        except ValueError as error:
            raise HTTPException(400, f"The body is not valid JSON: {error}.") from error


class StrictRoute(APIRoute):
    """A route that reads its body as ``StrictRequest`` does."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """FastAPI's handler, given the strict request."""
        handle = super().get_route_handler()

        async def strict(request: Request) -> Response:
            return await handle(StrictRequest(request.scope, request.receive))

        return strict
