"""The error tree, and its one table for the wire."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from api.errors import TABLE, wire_response
from orchestrator import errors as e
from orchestrator.records import CallState

GROUPS = {e.BadRequest, e.NotNow, e.Gone, e.OurFault}
"""Never raised themselves."""


def descendants(root: type[e.RunstateError]) -> Iterator[type[e.RunstateError]]:
    for child in root.__subclasses__():
        yield child
        yield from descendants(child)


def on_the_wire(error: e.RunstateError) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(bytes(wire_response(error).body))
    assert set(body) == {"error"}
    detail: dict[str, Any] = body["error"]
    return detail


def test_every_error_that_can_be_raised_has_a_line_in_the_table() -> None:
    assert set(TABLE) == set(descendants(e.RunstateError)) - GROUPS


@pytest.mark.parametrize("state", CallState)
def test_what_cannot_be_done_with_a_call_is_said_with_the_next_step(state: CallState) -> None:
    said, step = str(e.CallNotOpen("call_1", state)).split(": ")
    assert said == f"call_1 is {state}"
    is_open = list(CallState).index(state) < list(CallState).index(CallState.SUCCEEDED)
    assert ("resolve" in step, "say what came of it" in step) == (is_open, not is_open)


def test_every_error_is_drawn_in_the_tree() -> None:
    drawing = e.__doc__ or ""
    missing = [c.__name__ for c in descendants(e.RunstateError) if c.__name__ not in drawing]
    assert missing == []


def test_no_error_is_answered_with_a_status_that_clients_retry_or_misread() -> None:
    assert {wire.status for wire in TABLE.values()} <= {400, 403, 404, 410, 500, 503}
    retried = {wire.status for wire in TABLE.values() if wire.retry_after_s}
    assert retried == {503}


@pytest.mark.parametrize(
    ("error", "status", "text"),
    [
        (
            e.NotAcceptingOutputs("run_1", "expired"),
            400,
            'Runs in status "expired" do not accept tool outputs.',
        ),
        (
            e.CannotCancel("run_1", "completed"),
            400,
            "Cannot cancel run with status 'completed'.",
        ),
        (
            e.MessageWhileBusy("thread_1", "run_1"),
            400,
            "Can't add messages to thread_1 while a run run_1 is active.",
        ),
        (
            e.ThreadBusy("thread_1", "run_1"),
            400,
            "Thread thread_1 already has an active run run_1.",
        ),
        (
            e.OutputsMismatch("run_1", ["call_a", "call_b"], ["call_a"]),
            400,
            "Expected tool outputs for call_ids ['call_a', 'call_b'], got ['call_a']",
        ),
        (e.NotFound("assistant", "asst_1"), 404, "No assistant found with id 'asst_1'."),
        (e.NotFound("thread", "thread_1"), 404, "No thread found with id 'thread_1'."),
        (e.NotFound("run", "run_1"), 404, "No run found with id 'run_1'."),
    ],
)
def test_refusals_have_the_texts_that_clients_match(
    error: e.RunstateError, status: int, text: str
) -> None:
    assert wire_response(error).status_code == status
    assert on_the_wire(error) == {
        "message": text,
        "type": "invalid_request_error",
        "param": None,
        "code": None,
    }


def test_a_wrong_value_names_its_field_and_its_code() -> None:
    error = e.InvalidValue("Unknown parameter: 'x'.", "x", "unknown_parameter")
    assert on_the_wire(error) == {
        "message": "Unknown parameter: 'x'.",
        "type": "invalid_request_error",
        "param": "x",
        "code": "unknown_parameter",
    }


def test_our_own_faults_say_nothing_of_the_inside() -> None:
    secret = "redis://:password@10.0.0.1"
    for error in (e.StoreUnavailable(secret), e.StoreMismatch(secret), e.StaleRevision(secret)):
        assert "password" not in on_the_wire(error)["message"]
        assert on_the_wire(error)["type"] == "server_error"


def test_an_unreachable_store_says_when_to_try_again() -> None:
    response = wire_response(e.StoreUnavailable("no answer"))
    assert (response.status_code, response.headers["retry-after"]) == (503, "1")
