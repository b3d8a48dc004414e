"""Every error of the system, grouped by what the caller should do.

RunstateError
├── BadRequest                   your request is wrong: change it, sending it again will not help
│   ├── InvalidValue             a field of the request; ``param`` names it
│   ├── OperatorsOnly            the key has a name, and so opens only what was made under it
│   ├── OutputsMismatch          the submitted call ids are not the ones the run waits for
│   └── OversizedValue           a field is larger than the limit
├── NotNow                       the request is right, the state does not allow it now
│   ├── ThreadBusy               the thread has an active run
│   │   ├── MessageWhileBusy     … and a message was to be added
│   │   └── TooManyWaiting       … and as much waits for it to end as may
│   ├── NotAcceptingOutputs      the run does not wait for outputs of the client
│   ├── CannotCancel             the run has ended, or is being cancelled already
│   ├── CannotReplay             the run has not ended, or not all that it was shown is there
│   ├── StaleTurn                another engine has the turn, or the run went on without it
│   ├── CallNotOpen              the tool call cannot be claimed or answered any more
│   └── IllegalTransition        the table in states.py has no such edge (a bug, if it gets out)
├── Gone                         what was named does not exist
│   ├── NotFound                 ``kind`` and ``id``
│   └── LogExpired               the run is there, its event log is not kept any more
├── OurFault                     try again later; the request may have been right
│   ├── StaleRevision            somebody else committed first: load again and decide again
│   ├── StoreUnavailable         the store did not answer; nothing is known about the write
│   ├── StoreMismatch            the store was laid out for other settings
│   └── ServerStopping           this process is going away: ask again, another one will answer
└── ModelError                   a model call failed; ``code`` becomes the run's ``last_error``

Errors carry ids and statuses as attributes and a stable ``code``. How they look on the wire is
decided in ``api/errors.py`` alone.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal


class RunstateError(Exception):
    """The root: whatever we raise on purpose."""

    code: ClassVar[str] = "runstate_error"


class BadRequest(RunstateError):
    """The request is wrong; nothing was changed."""

    code = "invalid_value"
    param: str | None = None


class InvalidValue(BadRequest):
    """One field is wrong. The sentence says what would be right."""

    def __init__(self, message: str, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.param = param
        self.wire_code = code or self.code


class OperatorsOnly(BadRequest):
    """What concerns all tenants. ``what`` begins the sentence."""

    code = "operators_only"

    def __init__(self, what: str) -> None:
        super().__init__(f"{what} is for the operator: it takes an API key without a name.")


class OversizedValue(BadRequest):
    """A text is larger than what is kept; nothing of it was stored."""

    code = "string_above_max_length"

    def __init__(self, param: str, limit: int, actual: int) -> None:
        super().__init__(f"{param} has {actual} bytes, at most {limit} are kept.")
        self.param = param
        self.limit = limit
        self.actual = actual


class OutputsMismatch(BadRequest):
    """The outputs do not cover exactly the calls that wait for the client."""

    code = "outputs_mismatch"

    def __init__(self, run_id: str, expected: Sequence[str], got: Sequence[str]) -> None:
        super().__init__(
            f"{run_id} waits for outputs of {list(expected)}, got {list(got)}. "
            "Submit all of them in one request, each once."
        )
        self.run_id = run_id
        self.expected = list(expected)
        self.got = list(got)


class NotNow(RunstateError):
    """The state does not allow it now; nothing was changed."""

    code = "not_now"


class ThreadBusy(NotNow):
    """Wait for the active run to end, or cancel it."""

    code = "thread_busy"

    def __init__(self, thread_id: str, run_id: str) -> None:
        super().__init__(f"{thread_id} has the active run {run_id}: wait for it or cancel it.")
        self.thread_id = thread_id
        self.run_id = run_id


class MessageWhileBusy(ThreadBusy):
    """A message cannot be added while a run is active."""

    code = "message_while_busy"


class TooManyWaiting(ThreadBusy):
    """As many runs and messages wait for the active run as may. Send it when fewer do."""

    code = "too_many_waiting"


class NotAcceptingOutputs(NotNow):
    """The run does not wait for the client. ``status`` is the public one."""

    code = "not_accepting_outputs"

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"{run_id} is {status} and takes no tool outputs.")
        self.run_id = run_id
        self.status = status


class CannotCancel(NotNow):
    """The run has ended or is being cancelled."""

    code = "cannot_cancel"

    def __init__(self, run_id: str, status: str) -> None:
        super().__init__(f"{run_id} is {status} and cannot be cancelled.")
        self.run_id = run_id
        self.status = status


class CannotReplay(NotNow):
    """The run cannot be played again; ``reason`` says why."""

    code = "cannot_replay"

    def __init__(self, run_id: str, reason: str) -> None:
        super().__init__(f"{run_id} cannot be replayed: {reason}.")
        self.run_id = run_id
        self.reason = reason


class StaleTurn(NotNow):
    """The engine no longer holds this turn. Drop the result, it changes nothing."""

    code = "stale_turn"

    def __init__(self, run_id: str, generation: int, status: str) -> None:
        super().__init__(f"Turn generation {generation} of {run_id} is over; the run is {status}.")
        self.run_id = run_id
        self.generation = generation
        self.status = status


class CallNotOpen(NotNow):
    """The call cannot be claimed or answered. ``state`` is the ledger's."""

    code = "call_not_open"
    _next_steps: ClassVar[Mapping[str, str]] = {
        "required": "submit its output, or resolve it",
        "awaiting_approval": "approve or reject it, or resolve it",
        "dispatched": "wait for a worker, or cancel or resolve it",
        "started": "wait for its worker, or cancel, requeue or resolve it",
        "retrying": "wait for its next try, or cancel or resolve it",
    }

    def __init__(self, call_id: str, state: str) -> None:
        step = self._next_steps.get(state, "the run's tool_calls say what came of it")
        super().__init__(f"{call_id} is {state}: {step}.")
        self.call_id = call_id
        self.state = state


class IllegalTransition(NotNow):
    """The table has no such edge. ``decide`` asks before it gets here, so this is a bug."""

    code = "illegal_transition"

    def __init__(self, status: str, trigger: str) -> None:
        super().__init__(f"No transition leads from {status} by {trigger}.")
        self.status = status
        self.trigger = trigger


class Gone(RunstateError):
    """What was named is not there."""

    code = "gone"


Kind = Literal["assistant", "thread", "message", "run", "run step", "tool call", "tool", "turn"]


class NotFound(Gone):
    """No such object, or not one of this caller's."""

    code = "not_found"

    def __init__(self, kind: Kind, object_id: str) -> None:
        super().__init__(f"No {kind} has the id {object_id}.")
        self.kind = kind
        self.object_id = object_id


class LogExpired(Gone):
    """The retention of the run's event log is over. The run, its steps and messages are there."""

    code = "event_log_expired"

    def __init__(self, run_id: str) -> None:
        super().__init__(f"The events of {run_id} are not kept any more.")
        self.run_id = run_id


class OurFault(RunstateError):
    """Not the caller's doing."""

    code = "server_error"


class StaleRevision(OurFault):
    """Another commit came between. Load again and decide again; never merge."""

    code = "stale_revision"

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} was changed by somebody else in between.")
        self.key = key


class StoreUnavailable(OurFault):
    """The store did not answer. A write may or may not have happened: repeat it with its nonce."""

    code = "store_unavailable"


class StoreMismatch(OurFault):
    """The store holds data of another layout (partitions or format)."""

    code = "store_mismatch"


class ServerStopping(OurFault):
    """This process is about to end; nothing has happened to any run."""

    code = "server_stopping"

    def __init__(self) -> None:
        super().__init__("This server process is stopping.")


LastErrorCode = Literal["server_error", "rate_limit_exceeded", "invalid_prompt"]


class ModelError(RunstateError):
    """A model call failed. ``last_error_code`` and the sentence end up on the run.

    ``is_retryable`` says that the same call may succeed later (overload, time-out, broken
    connection); ``retry_after_s`` is what the provider asked for, in seconds, if it did.
    """

    code = "model_error"

    def __init__(
        self,
        message: str,
        *,
        last_error_code: LastErrorCode = "server_error",
        is_retryable: bool = False,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(message)
        self.last_error_code: LastErrorCode = last_error_code
        self.is_retryable = is_retryable
        self.retry_after_s = retry_after_s
