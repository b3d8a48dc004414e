"""What an answered turn is charged to: its run, its thread, and the sums of its tenant."""

from orchestrator.decisions import CountUsage
from orchestrator.records import Price, Tally, Usage
from tests.unit.play import Play, a_turn

SPENT = Usage(prompt_tokens=100, completion_tokens=20, cached_tokens=60)
PRICE = Price(prompt=1, completion=5, cached=0.1)


def counted(play: Play) -> list[CountUsage]:
    """What the last command asked to count."""
    return [effect for effect in play.decision.effects if isinstance(effect, CountUsage)]


def test_a_turn_is_counted_for_its_tenant_and_model_at_the_time_of_its_answer() -> None:
    play = a_turn(price=PRICE)
    play.reply("look_up", usage=SPENT)
    tally = Tally(
        turns=1, prompt_tokens=100, cached_tokens=60, completion_tokens=20, cost_micros=146
    )
    assert counted(play) == [CountUsage("library", "scripted/none", play.now_ms, tally)]
    assert play.world.thread.spent == tally


def test_an_unknown_price_is_no_price_of_nothing() -> None:
    play = a_turn()
    play.reply("look_up", usage=SPENT)
    tally = play.world.thread.spent
    assert (tally.unpriced_turns, tally.prompt_tokens, tally.cost_usd) == (1, 100, None)


def test_tokens_that_the_provider_does_not_name_are_said_to_be_unknown() -> None:
    play = a_turn(price=PRICE)
    play.reply(text="Read Dune.")
    assert play.world.thread.spent == Tally(turns=1, uncounted_turns=1, unpriced_turns=1)
    assert play.run.usage is None


def test_what_is_known_of_a_cost_is_told_although_some_is_not() -> None:
    known = Tally(turns=1, cost_micros=2_500_000)
    assert known.plus(Tally(turns=1, unpriced_turns=1)).cost_usd == 2.5
    assert Tally().cost_usd == 0


def test_a_turn_that_failed_or_was_lost_or_cancelled_counts_nothing() -> None:
    for end in (Play.fail_turn, Play.requeue, Play.cancel):
        play = a_turn(price=PRICE)
        end(play)
        assert (counted(play), play.world.thread.spent) == ([], Tally())


def test_the_turns_of_a_run_cost_together_what_the_run_costs() -> None:
    play = a_turn(price=Price(prompt=0.15, completion=0.15))
    for _ in range(7):
        play.reply("look_up", usage=Usage(prompt_tokens=2, completion_tokens=1))
        play.finish(play.claim(play.calls[-1]))
        play.start()
    assert (
        play.world.thread.spent.cost_micros == 3
    )  # 3.15; each turn for itself would round to none
