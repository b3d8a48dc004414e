"""JSON answers, as bytes made in one step (validating what we built ourselves costs half as much
as the whole request).
"""

from collections.abc import Mapping
from typing import Any

from pydantic_core import to_json
from starlette.responses import Response


def answer(
    document: Mapping[str, Any], *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """The document as a JSON response."""
    return Response(
        to_json(document), status_code=status, media_type="application/json", headers=headers
    )
