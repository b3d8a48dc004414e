"""The operations of the API, and which of them a request means."""

import re
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Operation:
    """A method and a path, as the published schema writes it."""

    method: str
    path: str

    def __str__(self) -> str:
        return f"{self.method} {self.path}"

    def is_meant(self, method: str, path: str) -> bool:
        """Whether this request is one of it."""
        pattern = re.sub(r"{\w+}", "[^/]+", self.path)
        return method == self.method and re.fullmatch(f"/v1{pattern}", path) is not None


_THREAD: Final = "/threads/{thread_id}"
_RUN: Final = f"{_THREAD}/runs/{{run_id}}"

OPERATIONS: Final = (
    Operation("POST", "/assistants"),
    Operation("GET", "/assistants"),
    Operation("GET", "/assistants/{assistant_id}"),
    Operation("POST", "/assistants/{assistant_id}"),
    Operation("DELETE", "/assistants/{assistant_id}"),
    Operation("POST", "/threads"),
    Operation("GET", "/threads"),
    Operation("POST", "/threads/runs"),  # before the next: "runs" is no thread
    Operation("GET", _THREAD),
    Operation("POST", _THREAD),
    Operation("DELETE", _THREAD),
    Operation("POST", f"{_THREAD}/messages"),
    Operation("GET", f"{_THREAD}/messages"),
    Operation("GET", f"{_THREAD}/messages/{{message_id}}"),
    Operation("POST", f"{_THREAD}/messages/{{message_id}}"),
    Operation("DELETE", f"{_THREAD}/messages/{{message_id}}"),
    Operation("POST", f"{_THREAD}/runs"),
    Operation("GET", f"{_THREAD}/runs"),
    Operation("GET", _RUN),
    Operation("POST", _RUN),
    Operation("POST", f"{_RUN}/cancel"),
    Operation("POST", f"{_RUN}/submit_tool_outputs"),
    Operation("GET", f"{_RUN}/steps"),
    Operation("GET", f"{_RUN}/steps/{{step_id}}"),
)


def operation_of(method: str, path: str) -> Operation | None:
    """The operation of a request; ``None`` for any other URL."""
    return next((one for one in OPERATIONS if one.is_meant(method, path)), None)
