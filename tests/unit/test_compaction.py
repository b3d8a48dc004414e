"""Summaries of older entries: where they stand, what they may replace, and what they cost."""

import pytest

from orchestrator.commands import IfBusy
from orchestrator.conversation import Group, Heard, Recalled, build, grouped
from orchestrator.decisions import EventType
from orchestrator.errors import StaleTurn
from orchestrator.records import Entry, Price, Spans, Summary, Usage
from orchestrator.states import RunStatus
from orchestrator.summaries import INSTRUCTIONS, to_be_summarised
from orchestrator.truncation import Limit, Rule, cut, older
from orchestrator.turn_record import places, spans
from tests.unit.play import Play, a_turn
from tests.unit.test_truncation import a_thread, check_that_providers_take_it, user, weigh

SUMMARY = "It was about lighthouses."


def summary(seq: int, replaces: Spans, text: str = SUMMARY) -> Summary:
    return Summary(seq=seq, run_id="run_1", turn=0, text=text, replaces=replaces)


def shown(entries: list[Entry]) -> list[str]:
    return [str(item.text) for item in build("", grouped(entries)).items]


def rounds(play: Play, count: int) -> None:
    """So many rounds of one call; the next turn has begun."""
    for _ in range(count):
        (call,) = play.reply("look_up")
        play.finish(play.claim(call))
        play.start()


# -- where they stand ------------------------------------------------------------------------------


def test_a_summary_stands_where_that_was_which_it_replaces() -> None:
    entries: list[Entry] = [user(seq, f"message {seq}") for seq in range(5)]
    entries.append(summary(5, ((1, 2),)))

    assert shown(entries) == ["message 0", Recalled(SUMMARY).text, "message 3", "message 4"]


def test_a_summary_may_be_summarised_again_and_hides_what_it_replaced_all_the_same() -> None:
    entries: list[Entry] = [user(seq, f"message {seq}") for seq in range(5)]
    entries += [summary(5, ((0, 1),)), user(6, "message 6"), summary(7, ((0, 2), (5, 5)), "All.")]

    assert shown(entries) == [Recalled("All.").text, "message 3", "message 4", "message 6"]


def test_a_summary_is_told_from_what_the_user_says() -> None:
    (item,) = build("", grouped([summary(0, ())])).items

    assert not isinstance(item, Heard)
    assert item.text.startswith("[Summary of")


def test_the_newest_words_of_the_user_stay_although_a_summary_stands_behind_them() -> None:
    entries = a_thread()
    question = next(group for group in grouped(entries) if group.seqs == (6,))
    entries.append(summary(len(entries), ((9, 30),)))
    nothing = Limit(1, Rule.CONTEXT_WINDOW)
    left = cut(grouped(entries), run_id="run_2", last_messages=None, limit=nothing, weigh=weigh)

    assert question in left.kept
    assert not any(group.replaces for group in left.kept)


def test_summaries_go_after_all_that_is_told_in_more_words() -> None:
    entries: list[Entry] = [user(seq) for seq in range(6)]
    entries.append(summary(6, ((1, 2),)))

    def kept(tokens: int) -> list[int]:
        limit = Limit(tokens, Rule.CONTEXT_WINDOW)
        left = cut(grouped(entries), run_id="run_2", last_messages=None, limit=limit, weigh=weigh)
        return [group.seqs[0] for group in left.kept]

    assert [kept(tokens) for tokens in (15, 12, 9, 6, 3)] == [
        [0, 6, 3, 4, 5],
        [0, 6, 4, 5],
        [0, 6, 5],
        [0, 5],
        [5],
    ]


def test_a_summary_is_no_message_to_be_counted() -> None:
    entries: list[Entry] = [user(seq) for seq in range(5)]
    entries.append(summary(5, ((1, 2),)))

    def kept(last_messages: int) -> list[int]:
        left = cut(
            grouped(entries),
            run_id="run_2",
            last_messages=last_messages,
            limit=None,
            weigh=weigh,
        )
        return [group.seqs[0] for group in left.kept]

    assert kept(3) == [0, 5, 3, 4]
    assert kept(2) == [3, 4]


# -- what they may replace -------------------------------------------------------------------------


def parts(entries: list[Entry], limit_tokens: int, room_tokens: int = 10_000) -> tuple[Group, ...]:
    return older(
        grouped(entries),
        limit=Limit(limit_tokens, Rule.CONTEXT_WINDOW),
        room_tokens=room_tokens,
        weigh=weigh,
    )


def test_so_much_is_summarised_that_half_of_the_limit_is_free() -> None:
    entries = a_thread()
    total = sum(map(weigh, grouped(entries)))
    part = parts(entries, total - 1)
    left = total - sum(map(weigh, part))

    assert left <= (total - 1) // 2 < left + weigh(part[-1])
    assert grouped(entries)[0] not in part, "the very first goes last"


def test_what_can_not_be_read_at_once_is_summarised_in_parts() -> None:
    entries = a_thread()
    part = parts(entries, 60, room_tokens=30)

    assert 0 < sum(map(weigh, part)) <= 30
    assert part == parts(entries, 60)[: len(part)]


def test_a_group_that_nobody_could_read_is_passed_over() -> None:
    entries: list[Entry] = [user(0), user(1, "x" * 100), user(2), user(3), user(4)]
    part = older(
        grouped(entries),
        limit=Limit(4, Rule.CONTEXT_WINDOW),
        room_tokens=50,
        weigh=lambda group: 100 if group.seqs == (1,) else 2,
    )

    assert [group.seqs for group in part] == [(0,), (2,), (3,)]


def test_a_summary_alone_is_not_summarised() -> None:
    entries: list[Entry] = [user(0), summary(1, ()), user(2)]

    assert parts(entries, 12) == ()


def test_a_model_reads_calls_and_outputs_as_text() -> None:
    play = a_turn()
    (call,) = play.reply("look_up", text="Let me see.")
    play.finish(play.claim(call))
    play.start()
    rounds(play, 1)
    entries = [*play.world.entries, summary(9, ())]
    asked = to_be_summarised(grouped(entries))

    assert asked.system == INSTRUCTIONS
    (item,) = asked.items
    assert isinstance(item, Heard)
    assert "assistant: Let me see." in item.text
    assert "assistant calls: look_up {}" in item.text
    assert "look_up returns: done" in item.text
    assert SUMMARY in item.text


# -- what is stored --------------------------------------------------------------------------------


def test_a_summary_is_stored_charged_and_told_and_the_turn_goes_on() -> None:
    play = a_turn()
    rounds(play, 2)
    play.compact(SUMMARY, Usage(prompt_tokens=5))
    stored = play.world.entries[-1]

    assert isinstance(stored, Summary)
    assert (stored.text, stored.turn, stored.run_id) == (SUMMARY, 2, play.run.id)
    assert play.run.usage == play.run.summary_usage == Usage(prompt_tokens=5)
    assert play.events == [EventType.TURN_COMPACTED]
    play.reply(text="Yes.", usage=Usage(prompt_tokens=7))
    assert play.run.usage == Usage(prompt_tokens=12)
    assert play.status is RunStatus.COMPLETED


def test_the_next_run_is_shown_the_summary_too() -> None:
    play = a_turn()
    rounds(play, 2)
    play.compact(SUMMARY)
    play.reply(text="Yes.")
    play.create("And then?")

    items = build("", grouped(play.world.entries)).items
    assert sum(isinstance(item, Recalled) for item in items) == 1


def test_an_attempt_in_vain_is_charged_and_leaves_no_entry() -> None:
    play = a_turn()
    rounds(play, 2)
    before = play.world.entries
    play.compact(None, Usage(prompt_tokens=5))

    assert play.world.entries == before
    assert play.run.usage == Usage(prompt_tokens=5)
    assert play.run.failed_summaries == 1


def test_an_attempt_that_never_reached_a_model_is_not_counted_as_a_call_of_one() -> None:
    play = a_turn()
    play.compact(None)
    assert play.run.usage is None
    assert play.world.thread.spent.turns == 0
    assert play.run.failed_summaries == 1


def test_an_engine_that_has_lost_its_turn_stores_no_summary() -> None:
    play = a_turn()
    rounds(play, 2)
    with pytest.raises(StaleTurn):
        play.compact(generation=play.run.generation - 1)


def test_a_summary_that_costs_too_much_ends_the_run_before_the_turn_is_paid_for() -> None:
    play = a_turn(max_cost_usd=1.0, price=Price(prompt=1_000_000, completion=1))
    rounds(play, 2)
    play.compact(SUMMARY, Usage(prompt_tokens=2))

    assert play.status is RunStatus.FAILED
    assert play.run.last_error is not None
    assert play.run.last_error.code == "rate_limit_exceeded"


def test_a_run_that_is_being_cancelled_is_not_failed_by_the_price_of_a_summary() -> None:
    play = a_turn(max_total_tokens=1)
    rounds(play, 2)
    play.cancel()
    play.compact(SUMMARY, Usage(prompt_tokens=2))

    assert play.status is RunStatus.CANCELLING


def test_a_rollback_takes_the_summaries_of_the_run_along_and_shows_what_they_hid() -> None:
    play = a_turn()
    play.reply(text="Dune.")
    play.create("And then?")
    play.start()
    play.compact()
    before = grouped(e for e in play.world.entries if not isinstance(e, Summary))
    play.text(IfBusy.ROLLBACK, "No, wait.")
    play.confirm_cancel()

    assert grouped(play.world.entries)[:2] == before[:2]


def test_prompts_with_summaries_are_taken_by_providers_at_every_size_of_the_window() -> None:
    counts = set()
    for tokens in range(20, sum(map(weigh, grouped(a_thread())))):
        entries, limit = a_thread(), Limit(tokens, Rule.CONTEXT_WINDOW)
        while part := older(grouped(entries), limit=limit, room_tokens=tokens, weigh=weigh):
            replaced = (seq for group in part for seq in (*group.seqs, *places(group.replaces)))
            entries.append(summary(len(entries), spans(replaced)))
        left = cut(grouped(entries), run_id="run_2", last_messages=None, limit=limit, weigh=weigh)
        check_that_providers_take_it(left)
        counts.add(sum(isinstance(entry, Summary) for entry in entries))
    assert counts >= {1, 2}
