"""What ends a run that would use up too much, and what is said of it."""

from typing import Any

import pytest

from orchestrator.commands import ProposedCall, RunOut, Stop
from orchestrator.errors import StaleTurn
from orchestrator.records import CallRound, Price, ToolSpec, Usage
from orchestrator.states import RunStatus
from tests.unit.play import Play, a_cancelled_turn, a_turn

SPENT = Usage(prompt_tokens=250, completion_tokens=50)
PRICE = Price(prompt=1_000, completion=6_000)


def why_failed(play: Play) -> str:
    assert play.status is RunStatus.FAILED
    assert play.run.last_error is not None
    return play.run.last_error.message


def test_the_numbers_of_a_token_limit_are_told_in_words() -> None:
    for kind in ("prompt", "completion"):
        play = a_turn(**{f"max_{kind}_tokens": 300})
        play.reply("look_up", usage=Usage(prompt_tokens=301, completion_tokens=302))
        spent = 301 if kind == "prompt" else 302
        assert play.run.incomplete_message == (
            f"The run may use 300 {kind} tokens and has used {spent} when the model asked for more"
            " tools."
        )


def test_an_answer_that_was_cut_off_says_by_which_limit() -> None:
    limited = a_turn(max_completion_tokens=300)
    limited.reply(text="It was", stop=Stop.LENGTH, usage=Usage(completion_tokens=300))
    assert "may use 300 completion tokens and has used 300" in str(limited.run.incomplete_message)
    free = a_turn()
    free.reply(text="It was", stop=Stop.LENGTH)
    assert str(free.run.incomplete_message).endswith(
        "the run, which set no limit of completion tokens, has used an unknown number."
    )


def test_tool_calls_are_counted_over_the_run() -> None:
    play = a_turn(max_tool_calls=2)
    play.reply("look_up", "ask_user", "look_up")
    assert (play.status, play.calls) == (RunStatus.FAILED, ())
    assert "asked for 3 tool calls in all; a run may make 2" in why_failed(play)


def test_the_same_call_again_and_again_ends_the_run() -> None:
    play = a_turn(max_repeated_calls=2)
    for _ in range(2):
        play.reply("ask_user")
        play.submit({play.calls[-1].id: "no"})
        play.start()
    play.reply("ask_user")
    assert "asked 3 times for ask_user with the same arguments" in why_failed(play)
    assert len(play.calls) == 2


def test_other_arguments_are_another_call() -> None:
    play = a_turn(max_repeated_calls=1)
    play.reply(*(ProposedCall(f"call_{n}", "ask_user", f'{{"n": {n}}}') for n in range(5)))
    assert play.status is RunStatus.REQUIRES_ACTION


@pytest.mark.parametrize(
    ("caps", "words"),
    [
        ({"max_total_tokens": 300}, "may use 300 tokens in all and this one has used 300"),
        ({"max_cost_usd": 0.5, "price": PRICE}, "may cost $0.5 and this one has cost $0.550000"),
        ({"max_cost_usd": 0.006, "price": PRICE}, "may cost $0.006 and this one has cost $0.55"),
    ],
)
def test_a_quota_ends_the_run_before_the_next_turn_is_paid_for(
    caps: dict[str, Any], words: str
) -> None:
    play = a_turn(**caps)
    play.reply("look_up", usage=SPENT)
    assert words in why_failed(play)
    assert play.run.last_error is not None
    assert play.run.last_error.code == "rate_limit_exceeded"


@pytest.mark.parametrize(
    "caps",
    [
        {"max_total_tokens": 301},
        {"max_cost_usd": 0.5},
        {"max_cost_usd": 0.56, "price": PRICE},
        {"max_tool_calls": 1, "max_repeated_calls": 1},
    ],
)
def test_below_its_limits_and_without_a_price_it_goes_on(caps: dict[str, Any]) -> None:
    play = a_turn(**caps)
    play.reply("look_up", usage=SPENT)
    assert play.status is RunStatus.REQUIRES_ACTION


def test_cached_tokens_cost_what_others_do_unless_they_have_a_price() -> None:
    usage = Usage(prompt_tokens=1_000_000, cached_tokens=400_000)
    assert Price(prompt=2, completion=9).of(usage) == 2
    assert Price(prompt=2, completion=9, cached=0.5).of(usage) == 1.4


def test_a_run_whose_prompt_does_not_fit_ends_before_the_model_is_asked() -> None:
    play = a_turn(max_prompt_tokens=300)
    play.ask(RunOut(play.run.generation, "Too much."))
    assert (play.status, play.run.incomplete_reason) == (
        RunStatus.INCOMPLETE,
        "max_prompt_tokens",
    )
    assert (play.run.incomplete_message, play.run.turns) == ("Too much.", 0)
    with pytest.raises(StaleTurn):
        play.ask(RunOut(play.run.generation, "Too much."))


def test_it_does_so_while_cancelling_as_well() -> None:
    play = a_cancelled_turn()
    play.ask(RunOut(play.run.generation, "Too much."))
    assert play.status is RunStatus.INCOMPLETE


@pytest.mark.parametrize(
    ("usage", "counted", "ratio"),
    [
        (Usage(prompt_tokens=150), 100, 1.5),
        (Usage(prompt_tokens=9_000), 100, 3.0),
        (Usage(prompt_tokens=1), 100, 0.5),
        (Usage(prompt_tokens=150), None, 1.0),
        (Usage(), 100, 1.0),
        (None, 100, 1.0),
    ],
)
def test_the_providers_count_corrects_ours(
    usage: Usage | None, counted: int | None, ratio: float
) -> None:
    play = a_turn()
    play.reply("look_up", usage=usage, counted_tokens=counted)
    assert play.run.token_ratio == ratio


def test_the_calls_of_a_tool_that_pins_its_results_are_marked() -> None:
    play = a_turn()
    play.reply(
        "look_up", "ask_user", published={"look_up": ToolSpec(name="look_up", pin_result=True)}
    )
    (asked,) = (entry for entry in play.world.entries if isinstance(entry, CallRound))
    assert [call.is_pinned for call in asked.calls] == [True, False]
