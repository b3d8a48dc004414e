"""Which try of a request is answered by a receipt."""

from dataclasses import replace

import pytest

from orchestrator.commands import AddMessages, Cancel, CreateRun, NewMessage
from orchestrator.errors import InvalidValue
from orchestrator.receipts import Attempt, Filed, Receipt, find_answer, refuse_other_use
from orchestrator.records import RunSpec
from orchestrator.repetition import made_by

FIRST = Attempt("name", 1000)
REPETITION = replace(FIRST, is_repetition=True)
NAMED = replace(FIRST, is_named=True)

NOTHING = Filed()
OLD = Filed(1, Receipt(made="run_1", made_ms=1))
OF_REPETITION = Filed(2, Receipt(made="run_2", made_ms=2, by_repetition=True))


@pytest.mark.parametrize("attempt", [FIRST, REPETITION, NAMED])
def test_without_a_receipt_every_try_is_carried_out(attempt: Attempt) -> None:
    assert find_answer(attempt, NOTHING, NOTHING) is None


@pytest.mark.parametrize("attempt", [REPETITION, NAMED])
def test_a_receipt_answers_repetitions_and_requests_with_names(attempt: Attempt) -> None:
    assert find_answer(attempt, OLD, OLD) is OLD.receipt


def test_a_first_try_is_not_answered_by_an_older_equal_request() -> None:
    assert find_answer(FIRST, OLD, OLD) is None
    assert find_answer(FIRST, OF_REPETITION, OF_REPETITION) is None


def test_a_first_try_is_not_answered_by_an_equal_one_that_came_between() -> None:
    assert find_answer(FIRST, OLD, NOTHING) is None


def test_a_first_try_that_its_own_repetition_overtook_is_answered_by_that() -> None:
    assert find_answer(FIRST, OF_REPETITION, OLD) is OF_REPETITION.receipt


def test_a_key_is_one_requests_own() -> None:
    refuse_other_use(NAMED, claimed_by=NAMED.name)
    with pytest.raises(InvalidValue, match="with another body or for another URL"):
        refuse_other_use(NAMED, claimed_by="another name")


def test_what_a_command_makes_is_known_by_its_id() -> None:
    message = NewMessage("msg_1", "user", ())
    spec = RunSpec(assistant_id="asst_1", model="m")
    assert made_by(AddMessages((message,))) == "msg_1"
    assert made_by(AddMessages(())) == ""
    assert made_by(CreateRun("run_1", spec, 1)) == "run_1"
    assert made_by(Cancel(1)) == ""
