"""The OpenAPI document, with links from what makes an object to what can be done with it."""

import re
from typing import Any, Final

from fastapi import FastAPI

Json = dict[str, Any]

_ID: Final = "$response.body#/id"
_OF_THREAD: Final = {"thread_id": "$response.body#/thread_id"}

_MAKERS: Final[dict[str, dict[str, str]]] = {
    "/v1/assistants": {"assistant_id": _ID},
    "/v1/threads": {"thread_id": _ID},
    "/v1/threads/{thread_id}/messages": _OF_THREAD | {"message_id": _ID},
    "/v1/threads/{thread_id}/runs": _OF_THREAD | {"run_id": _ID},
    "/v1/threads/runs": _OF_THREAD | {"run_id": _ID},
}
"""The operations that make something, and where their answers hold which ids."""

_RUNNER: Final = "/v1/threads/runs"
"""What an assistant's id in the body is enough for."""


def openapi_of(app: FastAPI) -> Json:
    """The document of the application; made once."""
    if app.openapi_schema is None:
        app.openapi_schema = _linked(FastAPI.openapi(app))
    return app.openapi_schema


def _linked(document: Json) -> Json:
    paths: Json = document["paths"]
    for path, ids in _MAKERS.items():
        links = {
            operation["operationId"]: _link(operation, target, ids)
            for target, operations in paths.items()
            for operation in operations.values()
            if _uses(target, ids)
        }
        if "assistant_id" in ids:
            runner = paths[_RUNNER]["post"]["operationId"]
            links[runner] = {"operationId": runner, "requestBody": {"assistant_id": _ID}}
        paths[path]["post"]["responses"]["200"]["links"] = links
    return document


def _uses(target: str, ids: dict[str, str]) -> bool:
    """Whether the new id is wanted there, and no other than these."""
    wanted = _parameters(target)
    own = next(name for name, place in ids.items() if place == _ID)
    return own in wanted and set(wanted) <= set(ids)


def _link(operation: Json, target: str, ids: dict[str, str]) -> Json:
    parameters = {name: ids[name] for name in _parameters(target)}
    return {"operationId": operation["operationId"], "parameters": parameters}


def _parameters(path: str) -> list[str]:
    return re.findall(r"{(\w+)}", path)
