"""How every error looks on the wire: one table, one envelope.

Known clients match on these texts (``already has an active run``, ``do not accept tool outputs``,
…), and on the status: a refusal is 400, since SDKs repeat a 409 by themselves.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response
from typing_extensions import TypedDict

from api.answers import answer
from orchestrator import errors as e
from orchestrator.decide.waiting import MAX_WAITING, MAX_WAITING_BYTES

REQUEST_ERROR: Final = "invalid_request_error"
SERVER_ERROR: Final = "server_error"
OUR_FAULT_TEXT: Final = "The server had an error while processing your request."


class ErrorDetail(TypedDict):
    """What went wrong; ``param`` is the path of the field, as in ``tool_outputs[3].output``."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorEnvelope(TypedDict):
    """The body of every answer that is not 200."""

    error: ErrorDetail


@dataclass(frozen=True, slots=True)
class Wire:
    """The appearance of one error class. ``text`` makes the message from the error."""

    status: int
    text: Callable[[Any], str]
    type: str = REQUEST_ERROR
    code: str | None = None
    retry_after_s: int | None = None


def _quoted(ids: list[str]) -> str:
    return "[" + ", ".join(f"'{call_id}'" for call_id in ids) + "]"


def _hidden(_: e.RunstateError) -> str:
    return OUR_FAULT_TEXT


def _takes_no_outputs(error: Any) -> str:
    text = f'Runs in status "{error.status}" do not accept tool outputs.'
    if error.status == "requires_action":  # and yet not of the client's outputs
        text += " This one waits for 'tool_approvals'."
    return text


TABLE: Final[dict[type[e.RunstateError], Wire]] = {
    e.InvalidValue: Wire(400, str),
    e.OversizedValue: Wire(
        400,
        lambda x: (
            f"Invalid '{x.param}': string too long. Expected a string of at most {x.limit} bytes,"
            f" but got a string of {x.actual} bytes instead."
        ),
        code="string_above_max_length",
    ),
    e.OperatorsOnly: Wire(403, str, code="operators_only"),
    e.OutputsMismatch: Wire(
        400,
        lambda x: f"Expected tool outputs for call_ids {_quoted(x.expected)}, got {_quoted(x.got)}",
    ),
    e.ThreadBusy: Wire(
        400, lambda x: f"Thread {x.thread_id} already has an active run {x.run_id}."
    ),
    e.MessageWhileBusy: Wire(
        400, lambda x: f"Can't add messages to {x.thread_id} while a run {x.run_id} is active."
    ),
    e.TooManyWaiting: Wire(
        400,
        lambda x: (
            f"Thread {x.thread_id} has the active run {x.run_id}, and no more may wait for its end"
            f" than {MAX_WAITING} runs and messages of {MAX_WAITING_BYTES} bytes. Try again when"
            " some of it has been served."
        ),
        code="too_many_waiting",
    ),
    e.NotAcceptingOutputs: Wire(400, _takes_no_outputs),
    e.CannotCancel: Wire(400, lambda x: f"Cannot cancel run with status '{x.status}'."),
    e.CannotReplay: Wire(400, str),
    e.CallNotOpen: Wire(400, str),
    e.StaleTurn: Wire(400, str),
    e.NotFound: Wire(404, lambda x: f"No {x.kind} found with id '{x.object_id}'."),
    e.LogExpired: Wire(
        410,
        lambda x: (
            f"The events of {x.run_id} are not kept any more. The run, its steps and its messages"
            " can still be read."
        ),
        code="event_log_expired",
    ),
    e.StaleRevision: Wire(503, _hidden, SERVER_ERROR, retry_after_s=1),
    e.StoreUnavailable: Wire(
        503,
        lambda _: "The store does not answer. Try again in a moment.",
        SERVER_ERROR,
        "store_unavailable",
        retry_after_s=1,
    ),
    e.StoreMismatch: Wire(500, _hidden, SERVER_ERROR),
    e.ServerStopping: Wire(
        503,
        lambda _: "This server process is stopping; the run goes on. Ask again.",
        SERVER_ERROR,
        "server_stopping",
        retry_after_s=1,
    ),
    e.IllegalTransition: Wire(500, _hidden, SERVER_ERROR),
    e.ModelError: Wire(500, _hidden, SERVER_ERROR),
}

HTTP_CODES: Final = {404: "unknown_url", 405: "method_not_supported", 413: "request_too_large"}


def problem(
    status: int, message: str, code: str | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    """A refusal in the envelope."""
    detail = ErrorDetail(message=message, type=REQUEST_ERROR, param=None, code=code)
    return _enveloped(status, detail, headers)


def error_detail(error: Exception) -> ErrorDetail:
    """What clients are told of an error: of one that nobody foresaw, only that it was ours."""
    wire = TABLE.get(type(error))  # type: ignore[arg-type]  # others are simply not in it
    if wire is None:
        return ErrorDetail(message=OUR_FAULT_TEXT, type=SERVER_ERROR, param=None, code=None)
    return ErrorDetail(
        message=wire.text(error),
        type=wire.type,
        param=getattr(error, "param", None),
        code=getattr(error, "wire_code", wire.code),
    )


def wire_response(error: e.RunstateError) -> Response:
    """The response to one of our own errors."""
    wire = TABLE[type(error)]
    retry = {"Retry-After": str(wire.retry_after_s)} if wire.retry_after_s else None
    return _enveloped(wire.status, error_detail(error), retry)


def server_error() -> Response:
    """The response to anything that nobody foresaw; the traceback goes to the log only."""
    return _enveloped(500, error_detail(Exception()), None)


async def on_runstate_error(_: Request, error: Exception) -> Response:
    """For our own errors."""
    assert isinstance(error, e.RunstateError)  # noqa: S101 - registered for this class
    return wire_response(error)


async def on_http_error(request: Request, error: Exception) -> Response:
    """For what the framework refuses: unknown URL, wrong method, body too large or not JSON."""
    assert isinstance(error, HTTPException)  # noqa: S101 - registered for this class
    method, path = request.method, request.url.path
    texts = {
        404: f"Unknown request URL: {method} {path}. Please check the URL for typos.",
        405: f"Not allowed to {method} on {path}.",
    }
    return problem(
        error.status_code,
        texts.get(error.status_code, error.detail),
        code=HTTP_CODES.get(error.status_code),
        headers=error.headers,
    )


def _enveloped(status: int, detail: ErrorDetail, headers: Mapping[str, str] | None) -> Response:
    return answer(ErrorEnvelope(error=detail), status=status, headers=headers)
