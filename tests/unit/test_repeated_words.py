"""Workers that say a thing again, since nobody told them that it was heard: it counts once."""

import pytest

from orchestrator.commands import ClaimCall, Outcome
from orchestrator.errors import CallNotOpen
from tests.unit.play import CALL_LEASE_MS, a_round


def test_a_claim_that_is_repeated_gives_the_same_generation_and_lease() -> None:
    play = a_round("look_up")
    claim = ClaimCall(play.calls[0].id, "worker_1", CALL_LEASE_MS, nonce="first")
    play.ask(claim)
    before = play.world
    play.later(50)
    play.ask(claim)
    assert (play.world, play.calls[0].generation) == (before, 1)
    with pytest.raises(CallNotOpen):
        play.ask(ClaimCall(claim.call_id, "worker_1", CALL_LEASE_MS, nonce="second"))


def test_a_claim_that_is_repeated_after_the_call_was_lost_gives_nothing() -> None:
    play = a_round("look_up")
    claim = ClaimCall(play.calls[0].id, "worker_1", CALL_LEASE_MS, nonce="first")
    play.ask(claim)
    play.claim(play.send_again(play.lose(play.calls[0])), "worker_2")
    with pytest.raises(CallNotOpen):
        play.ask(claim)
    assert play.calls[0].worker == "worker_2"


def test_a_result_that_is_repeated_is_not_late() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.finish(call)
    before = play.world
    assert play.finish(call).late == ()
    assert play.world == before


def test_another_result_than_the_one_that_counted_is_late() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.finish(call, "It did not end.", Outcome.TIMED_OUT)
    for _ in range(2):
        play.finish(call, "It did, after all.")
    assert [late.text for late in play.calls[0].late] == ["It did, after all."]


def test_a_wish_to_be_called_again_that_is_repeated_is_not_late() -> None:
    play = a_round("look_up")
    call = play.claim(play.calls[0])
    play.retry(call)
    before = play.world
    assert play.retry(call).late == ()
    assert play.world == before
