"""Every error of a provider's client as a ``ModelError``, in a sentence without the key."""

import contextlib
import math
from collections.abc import Iterator
from email.utils import parsedate_to_datetime
from types import ModuleType
from typing import Any

import httpx2

from orchestrator.errors import ModelError
from orchestrator.llm.endings import failure_for
from orchestrator.llm.endpoint import Endpoint


@contextlib.contextmanager
def errors_named(sdk: ModuleType, root: type[Exception], endpoint: Endpoint) -> Iterator[None]:
    """``sdk`` is the official client's package, ``root`` the base of all that it raises."""
    try:
        yield
    except sdk.APIStatusError as error:
        raise _refused(error, endpoint) from error
    except (sdk.APITimeoutError, httpx2.TimeoutException) as error:
        kind = type(error.__cause__ or error).__name__
        sentence = f"The model's endpoint did not answer in time ({kind})."
        raise ModelError(sentence, is_retryable=True) from error
    except (sdk.APIConnectionError, httpx2.RequestError) as error:
        cause = error.__cause__ or error
        reason = endpoint.shown(str(cause) or type(cause).__name__)
        raise ModelError(f"The model's endpoint failed: {reason}", is_retryable=True) from error
    except (root, httpx2.InvalidURL) as error:
        raise ModelError(f"The model call failed: {endpoint.shown(str(error))}") from error


def _refused(error: Any, endpoint: Endpoint) -> ModelError:
    """``error``: the status, the words and the headers of an answer that is none."""
    status = error.status_code
    if status in {401, 403}:
        # The provider's own sentence would show a part of the key.
        return ModelError(
            f"The model's endpoint refused the key ({status}): check {endpoint.key_variable}."
        )
    words = endpoint.shown(_words(error))
    if getattr(error, "code", None) == "insufficient_quota":
        return ModelError(
            f"The model's endpoint says: {words}", last_error_code="rate_limit_exceeded"
        )
    sentence = f"The model's endpoint says ({status}): {words}"
    return failure_for(status, sentence, _retry_after_s(error.response.headers))


def _words(error: Any) -> str:
    """The provider's own sentence, without the wrapping of the client."""
    match error.body:
        case {"error": {"message": str() as words}} | {"message": str() as words}:
            return words
        case _:
            return str(error.message)


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
